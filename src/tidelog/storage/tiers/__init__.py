"""Cold storage of logs: copies of sealed segments in an object store (KIP-405)."""
