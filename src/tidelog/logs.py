"""Log lines: their fields, their format, and bounds on repetition.

Text for people, or one JSON object a line with the field names of the Elastic Common Schema, which Elastic and Loki read
without a parser of their own.  Lines go to standard error; the service manager collects them."""

from __future__ import annotations

import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextvars import ContextVar

from tidelog.errors import InvalidConfig

request_id: ContextVar[str | tuple[str, int] | None] = ContextVar("request_id", default=None)
"""The request that is worked on: the id of one over HTTP, address of the client and correlation id of one of Kafka's."""

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
ROOT = ""


def parse_levels(entries: Iterable[str], setting: str) -> dict[str, int]:
    """`level`, or `logger=level` for one part of the broker; InvalidConfig for anything else."""
    levels = {ROOT: logging.INFO}
    for entry in entries:
        name, _, level = entry.rpartition("=")
        name, level = name.strip(), level.strip().lower()
        if level not in LEVELS or (name and name.partition(".")[0] != "tidelog"):
            raise InvalidConfig(
                f"{setting} cannot have {entry!r}: write one of {', '.join(LEVELS)}, or as tidelog.storage=debug"
            )
        levels[name] = LEVELS[level]
    return levels


def current_request() -> str | None:
    request = request_id.get()
    return f"{request[0]}/{request[1]}" if isinstance(request, tuple) else request


class JsonFormatter(logging.Formatter):
    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = str(node_id)

    def format(self, record: logging.LogRecord) -> str:
        import json

        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "@timestamp": f"{seconds}.{int(record.msecs):03d}Z",
            "log.level": record.levelname.lower(),
            "message": record.getMessage(),
            "log.logger": record.name,
            "service.name": "tidelog",
            "service.node.name": self._node_id,
            "process.pid": record.process,
        }
        audit = getattr(record, "audit", None)
        if audit is not None:
            line["message"] = (
                f"{audit['event']} {audit['outcome']}: {audit['principal']} {audit['operation']}"
            )
            line |= {f"tidelog.audit.{name}": value for name, value in audit.items()}
        request = current_request()
        if request is not None:
            line["request.id"] = request
        if record.exc_info is not None and record.exc_info[1] is not None:
            problem = record.exc_info[1]
            line["error.type"] = type(problem).__name__
            line["error.message"] = str(problem)
            line["error.stack_trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


class _Allowance:
    """Allows a number of lines at once, and `a_second` more for each second that passes."""

    __slots__ = ("_a_second", "_at_s", "_left", "_most", "left_out")

    def __init__(self, most: float, a_second: float, now_s: float) -> None:
        self._most = self._left = most
        self._a_second = a_second
        self._at_s = now_s
        self.left_out = 0

    def takes(self, now_s: float) -> bool:
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._a_second)
        self._at_s = now_s
        if self._left < 1:
            self.left_out += 1
            return False
        self._left -= 1
        return True


class SparingLog:
    """Warnings that clients can cause as often as they like: few of each address, not very many of all.  The next line of
    an address says how many were left out."""

    OF_ONE, OF_ONE_A_SECOND = 50, 1
    OF_ALL, OF_ALL_A_SECOND = 400, 20
    ADDRESSES_MAX = 1_000

    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._all = _Allowance(self.OF_ALL, self.OF_ALL_A_SECOND, now_s())
        self._by_address: OrderedDict[str, _Allowance] = OrderedDict()

    def warning(self, address: str, text: str, *values: object) -> None:
        now_s = self._now_s()
        allowance = self._by_address.get(address)
        if allowance is None:
            allowance = self._by_address[address] = _Allowance(self.OF_ONE, self.OF_ONE_A_SECOND, now_s)
            if len(self._by_address) > self.ADDRESSES_MAX:
                self._by_address.popitem(last=False)
        self._by_address.move_to_end(address)
        if not allowance.takes(now_s):
            return
        if not self._all.takes(now_s):
            allowance.left_out += 1
            return
        left_out, allowance.left_out = allowance.left_out, 0
        if left_out:
            text += f" ({left_out} more lines about {address} were left out)"
        self._log.warning(text, *values)


def set_up(shape: str, levels: dict[str, int], node_id: int, among_others: bool = False) -> None:
    """Sets up the log of the process, once.  `among_others`: the lines of other brokers go to the same place."""
    handler = logging.StreamHandler(sys.stderr)
    text = TEXT.replace("%(name)s", f"[broker {node_id}] %(name)s") if among_others else TEXT
    handler.setFormatter(JsonFormatter(node_id) if shape == "json" else logging.Formatter(text))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)
