"""The bound on the memory of requests, of all connections together: which connection reads on while memory is short."""

class RequestReader:
    """What the bound knows of a connection: the bytes that have arrived, and whether the connection waits for answers."""

    bytes_in: int

    def refused(self, problem: BaseException) -> None: ...
    def close(self) -> None: ...

class QueuedBytes:
    """The memory of requests that have not wholly arrived, or wait for their handler, of all connections together.

    While that memory is `most` bytes or more, connections in the middle of a frame wait, all but the first one; requests
    that arrive whole do not wait.  So one frame always becomes whole, and no more than that frame exceeds the bound."""

    used: int
    most: int
    unsent: int  # bytes of answers that no client has taken yet
    waits: int  # how often a connection had to wait
    def __init__(self, most: int) -> None: ...
    @property
    def waiting_count(self) -> int:
        """Connections that wait now."""

    def take(self, size: int) -> None:
        """A copy of a request is kept until `give_back`."""

    def give_back(self, size: int) -> None: ...
