"""Transactions and the producers that take part in them."""
