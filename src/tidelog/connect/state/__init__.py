"""What workers agree on: connectors, tasks, offsets and status, in compacted topics."""
