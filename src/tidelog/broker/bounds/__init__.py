"""Bounds on what clients may take of a broker, and who has to go when they are reached."""
