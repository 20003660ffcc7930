"""A response as it is encoded: bytes that grow at the end, and the tagged fields that Produce and Fetch have in common."""

class ResponseWriter:
    """For native code."""
