"""A non-blocking stream of bytes: a socket of the system, read and written natively, or an object with its methods (TLS)."""

from typing import Any

class ByteStream:
    """For native code; `sock` is a socket of the system, or an object with its methods.  Such an object may have `pending`:
    it then holds bytes that make no descriptor readable."""

    def __init__(self, sock: Any) -> None: ...
