"""Fetch requests and sessions, and the buffers of fetched records by partition."""
