"""Damaged bytes: how recovery, reads and the scrubber find them, and how they are mended."""
