"""Messages between `tidelog sql` and the process that keeps Spark warm: lines of JSON on a Unix socket.

To the process: {"open": {...}}, {"run": text}, {"wait": true}, {"cancel": true}.  From it: {"ready": true}; {"said": text};
{"columns": [...], "live": false}, {"rows": [...]}, {"end": true}.  {"done": true} or {"error": text} ends a run.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

MESSAGE_BYTES_MAX = 64 * 1024 * 1024


class MessageStream:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        with self._sending:
            self._connection.sendall(data + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the other side is gone."""
        try:
            line = self._lines.readline(MESSAGE_BYTES_MAX)
        except OSError:
            return None
        if not line.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(line.decode("utf-8", "surrogatepass"))
        return message

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (message := self.receive()) is not None:
            yield message

    def finish(self, timeout_s: float) -> None:
        """Sends no more, and waits until the other side closes."""
        with contextlib.suppress(OSError):
            self._connection.settimeout(timeout_s)
            self._connection.shutdown(socket.SHUT_WR)
            while self._lines.read1(65536):
                pass
        self.close()

    def close(self) -> None:
        # `close` alone would wait for a thread that reads.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def plain(cell: Any) -> Any:
    """A cell of a row as JSON has it."""
    if isinstance(cell, bytes | bytearray):
        return bytes(cell).decode("utf-8", "backslashreplace")
    if isinstance(cell, datetime | date):
        return cell.isoformat()
    if isinstance(cell, Decimal):
        return str(cell)
    if hasattr(cell, "asDict"):
        return {name: plain(value) for name, value in cell.asDict().items()}
    if isinstance(cell, dict):
        return {str(name): plain(value) for name, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [plain(value) for value in cell]
    return cell
