"""Produce (api 0), and what it does for transactions, for compressed batches and for schemas."""
