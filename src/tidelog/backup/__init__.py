"""Backups of a cluster in an object store: taken from running brokers, checked, restored into new data directories."""
