"""Transactions of a producer: the coordinator, what is allowed in which state, prepared transactions."""
