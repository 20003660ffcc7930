"""The log cleaner: what to compact and when, the process that does it, and its result."""
