"""The process that keeps a Spark session warm for `tidelog sql`: every connection has a session, settings and queries of
its own in one JVM.  It ends when nobody was connected for a while.

`warm.client` starts it; the socket is in a folder that only its owner can enter."""

from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import TidelogError
from tidelog.pipeline.running.runner import reason_of
from tidelog.pipeline.sql.catalog import Catalog
from tidelog.pipeline.sql.engine import Engine, Notice, Result
from tidelog.pipeline.sql.warm.messages import MessageStream, plain
from tidelog.pipeline.streams import pipeline as pipelines
from tidelog.pipeline.streams.pipeline import Pipeline
from tidelog.pipeline.streams.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("tidelog.pipeline")

CONNECTIONS_MAX = 32
ROWS_AT_ONCE = 500
PEER = struct.Struct("3i")  # process, user and group of the other side
ENDED: dict[str, Any] = {"gone": True}


class WarmServer:
    def __init__(self, listener: socket.socket, idle_s: float) -> None:
        self._listener, self._idle_s = listener, idle_s
        self._lock = threading.Lock()
        self._connections = 0
        self._used_s = time.monotonic()
        self._spark: SparkSession | None = None

    def run(self) -> None:
        """Serves until nobody has been connected for the idle time."""
        while True:
            with self._lock:
                rest_s = self._idle_s if self._connections else self._used_s + self._idle_s - time.monotonic()
            if rest_s <= 0:
                return
            self._listener.settimeout(rest_s)
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            if not _is_owner(connection) or not self._enter():
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _enter(self) -> bool:
        with self._lock:
            if self._connections >= CONNECTIONS_MAX:
                return False
            self._connections += 1
            return True

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        try:
            WarmConnection(MessageStream(connection), self.session).serve()
        except Exception:
            log.exception("A connection of tidelog sql failed")
        finally:
            with self._lock:
                self._connections -= 1
                self._used_s = time.monotonic()

    def session(self) -> SparkSession:
        """A new session of the one Spark, with settings and views of its own."""
        with self._lock:
            if self._spark is None:
                self._spark = session("tidelog sql")
            return self._spark.newSession()


class WarmConnection:
    """One `tidelog sql`.  A thread reads the messages, so that a cancellation arrives while statements run on another."""

    def __init__(self, messages: MessageStream, new_session: Any) -> None:
        self._messages, self._new_session = messages, new_session
        self._work: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._engine: Engine | None = None

    def serve(self) -> None:
        opening = self._messages.receive()
        if opening is None or "open" not in opening:
            self._messages.close()
            return
        worker = threading.Thread(target=self._run_all, args=(opening["open"],), daemon=True)
        worker.start()
        for message in self._messages:
            if "cancel" in message:
                self._cancel()
            else:
                self._work.put(message)
        self._work.put(ENDED)
        self._cancel()
        worker.join()
        self._messages.close()

    def _cancel(self) -> None:
        if self._engine is not None:
            self._engine.cancel()

    def _run_all(self, opening: dict[str, Any]) -> None:
        """On one thread: Spark keeps the jobs that a statement may cancel by thread."""
        try:
            self._engine = self._opened(opening)
            self._messages.send({"ready": True})
        except Exception as problem:
            self._report(problem)
            return
        try:
            while (message := self._work.get()) is not ENDED:
                self._run(self._engine, message)
        except OSError:
            pass  # The other side is gone.
        finally:
            self._engine.stop()
            pipelines.DEFINED.clear()  # Nothing here starts pipelines by their definition.

    def _opened(self, opening: dict[str, Any]) -> Engine:
        spark = self._new_session()
        # Spark looks for sinks in Python in the active session of the thread.
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)
        pipeline = Pipeline(
            "sql",
            bootstrap=opening["bootstrap"],
            checkpoint=opening["checkpoint"],
            options=opening["options"],
            spark=spark,
        )
        catalog = Catalog(Path(opening["catalog"]))
        return Engine(pipeline, catalog=catalog, until_done=opening["until_done"])

    def _run(self, engine: Engine, message: dict[str, Any]) -> None:
        try:
            if "wait" in message:
                engine.wait()
            else:
                engine.catalog.reload()
                for result in engine.results(message["run"]):
                    self._send(result)
            self._messages.send({"done": True})
        except OSError:
            raise
        except Exception as problem:
            self._report(problem)

    def _send(self, result: Result) -> None:
        if isinstance(result, Notice):
            self._messages.send({"said": result.text})
            return
        self._messages.send({"columns": result.columns, "live": result.live})
        rows: list[list[Any]] = []
        for row in result.rows:
            rows.append([plain(cell) for cell in row])
            if result.live or len(rows) == ROWS_AT_ONCE:
                self._messages.send({"rows": rows})
                rows = []
        self._messages.send({"rows": rows})
        self._messages.send({"end": True})

    def _report(self, problem: Exception) -> None:
        reason = str(problem) if isinstance(problem, TidelogError) else reason_of(problem)
        self._messages.send({"error": reason})


def _is_owner(connection: socket.socket) -> bool:
    _, user, _ = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    return bool(user == os.getuid())


def main() -> None:
    """`server PATH IDLE_S`: writes a line to standard output when it listens."""
    path, idle_s = Path(sys.argv[1]), float(sys.argv[2])
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    mine = path.stat().st_ino
    listener.listen(CONNECTIONS_MAX)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("listening", flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        WarmServer(listener, idle_s).run()
    finally:
        # A successor may have taken the path.
        if path.exists() and path.stat().st_ino == mine:
            path.unlink()
        listener.close()


if __name__ == "__main__":
    main()
