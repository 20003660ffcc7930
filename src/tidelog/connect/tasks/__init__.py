"""Tasks: each runs one connector, or a part of it, between its other side and the brokers."""
