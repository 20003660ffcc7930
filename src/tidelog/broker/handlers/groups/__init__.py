"""Groups of all kinds: members, offsets, and the state of share groups."""
