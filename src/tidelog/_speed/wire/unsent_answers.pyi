"""Answers of one connection that its socket has not taken yet, bytes and slices of files, in the order of the requests."""

from tidelog._speed.wire.queued_bytes import QueuedBytes

class UnsentAnswers:
    """For native code; the memory of the answers counts in `queued.unsent`."""

    def __init__(self, queued: QueuedBytes) -> None: ...
