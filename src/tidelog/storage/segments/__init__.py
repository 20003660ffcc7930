"""Segments of a log: the file of batches, its indexes, and how segments are swapped and deleted."""
