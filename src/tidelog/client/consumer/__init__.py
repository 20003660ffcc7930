"""The consumer: fetches records of assigned partitions, and commits the offsets of processed records."""
