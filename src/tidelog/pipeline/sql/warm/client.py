"""Connects `tidelog sql` to the process that keeps Spark warm, and starts that process if none runs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tidelog
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.sql.engine import Notice, Result, Rows
from tidelog.pipeline.sql.warm.messages import MessageStream

SERVER = "tidelog.pipeline.sql.warm.server"
LOG_CHARS = 2000
ATTEMPTS_MAX = 3
SOCKET_PATH_MAX = 107
END_S_MAX = 30.0
# What decides how Spark starts and how rows are shown: a process with other values is another one.
ENVIRONMENT = ("JAVA_HOME", "PYSPARK_PYTHON", "PYTHONPATH", "TZ")


class WarmSpark:
    """A connection; the server ends the queries of a connection that goes away."""

    def __init__(self, messages: MessageStream) -> None:
        self._messages = messages

    @classmethod
    def connect(cls, opening: dict[str, Any], idle_s: float) -> WarmSpark:
        folder = runtime_folder()
        path = folder / f"sql-{_digest()}.sock"
        if len(os.fsencode(path)) > SOCKET_PATH_MAX:
            raise PipelineError(f"{path} is too long for a socket: set XDG_RUNTIME_DIR, or use --keep-warm 0")
        for _ in range(ATTEMPTS_MAX):
            messages = MessageStream(_connection(path, idle_s))
            try:
                messages.send({"open": opening})
                answer = messages.receive()
            except OSError:
                answer = None
            if answer is not None and "error" in answer:
                raise PipelineError(answer["error"])
            if answer is not None:
                return cls(messages)
            messages.close()  # The process ended for lack of work just as we came.
        raise PipelineError(
            f"the process that keeps Spark does not answer: see {_log_of(path)}, or use --keep-warm 0"
        )

    def results(self, text: str) -> Iterator[Result]:
        """Executes the statements of a text; the rows of one result must be taken before the next."""
        self._messages.send({"run": text})
        while True:
            message = self._next()
            if "said" in message:
                yield Notice(message["said"])
            elif "columns" in message:
                rows = self._rows()
                yield Rows(message["columns"], rows, message["live"])
                for _ in rows:
                    pass
            elif "done" in message:
                return

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        while "end" not in (message := self._next()):
            for row in message["rows"]:
                yield tuple(row)

    def wait(self) -> None:
        self._messages.send({"wait": True})
        self._next()

    def cancel(self) -> None:
        with contextlib.suppress(OSError):
            self._messages.send({"cancel": True})

    def close(self) -> None:
        """Returns when the server has stopped the queries of this connection: the next one may use their checkpoints."""
        self._messages.finish(END_S_MAX)

    def _next(self) -> dict[str, Any]:
        message = self._messages.receive()
        if message is None:
            raise PipelineError("the process that keeps Spark has ended: run the statement again")
        if "error" in message:
            raise PipelineError(message["error"])
        return message


def runtime_folder() -> Path:
    """A folder that only this user can enter."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "tidelog" if base else Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = folder.stat(follow_symlinks=False)
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PipelineError(f"{folder} is open to other users: remove it, or use --keep-warm 0")
    return folder


def stop_servers() -> int:
    """Ends all such processes of this user; returns how many there were."""
    stopped = 0
    for path in runtime_folder().glob("sql-*.sock"):
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(path))
            except OSError:
                path.unlink(missing_ok=True)
                continue
            data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            os.kill(int.from_bytes(data[:4], sys.byteorder), signal.SIGTERM)
            stopped += 1
    return stopped


def _connection(path: Path, idle_s: float) -> socket.socket:
    """Connected to the server, which is started if it does not run.  The lock lets one of several commands start it."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError:
            _start(path, idle_s)
            connection.connect(str(path))
        return connection


def _start(path: Path, idle_s: float) -> None:
    with _log_of(path).open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", SERVER, str(path), str(idle_s)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for the command alone.
            cwd=path.parent,
        )
    assert process.stdout is not None
    with process.stdout:
        if process.stdout.readline():
            return
    tail = _log_of(path).read_text(errors="replace")[-LOG_CHARS:].strip()
    raise PipelineError(f"the process that keeps Spark did not start: {tail}")


def _log_of(path: Path) -> Path:
    return path.with_suffix(".log")


def _digest() -> str:
    """Of the code, the Python and the environment: after an upgrade the next command starts a new process."""
    digest = hashlib.sha256(f"{sys.executable} {tidelog.__file__}".encode())
    for file in sorted((Path(tidelog.__file__).parent / "pipeline").rglob("*.py")):
        digest.update(f"{file.name} {file.stat().st_mtime_ns}".encode())
    names = [name for name in sorted(os.environ) if name in ENVIRONMENT or name.startswith("SPARK_")]
    digest.update(repr([(name, os.environ[name]) for name in names]).encode())
    return digest.hexdigest()[:16]
