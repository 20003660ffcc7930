"""A port of the loopback interface that stays free for one broker, also while that broker is down.

The claim is a socket that is bound and does not listen.  The kernel then gives the port to nobody: not to an outgoing
connection, not to a listener that wants any port, and not to another claim.  A listener that names the port and sets
SO_REUSEADDR, as servers do, gets it; without a listener, clients are refused there."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


class ClaimedPort:
    """Holds `number` from its construction until `release`."""

    def __init__(self, number: int = 0) -> None:
        """Any free port without a number; raises OSError when the port is in use or claimed."""
        self._held = socket.socket()
        try:
            self._held.bind((LOOPBACK, number))
            # After the bind: a claim must not share a port with another claim, and a listener shares it with this one.
            self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        except OSError:
            self._held.close()
            raise
        self.number: int = self._held.getsockname()[1]

    def release(self) -> None:
        self._held.close()

    def __enter__(self) -> ClaimedPort:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
