"""The process of an application: it loads pipelines, starts them, and writes their status until they end.

SIGTERM and SIGINT stop it in order; after a crash the next run continues from the checkpoints."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import TidelogError
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.running.apps import App, AppFolder
from tidelog.pipeline.running.checkpoints import positions_of
from tidelog.pipeline.running.loading import load
from tidelog.pipeline.running.progress import QueryProgress, prometheus
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.pipeline.streams.pipeline import Pipeline

STATUS_EVERY_S = 1.0
OF_PY4J = "An error occurred while calling"
JAVA_CLASS = re.compile(r"^: (?:[a-z]\w*\.)+\w+: ")  # as Py4J writes an error of the JVM
ERROR_CHARS_MAX = 2000


class PipelineRunner:
    def __init__(self, folder: AppFolder, app: App, say: Callable[[str], None]) -> None:
        self._folder, self._app = folder, app
        self._say = say
        self._asked = threading.Event()
        self._loading = False
        self._lock = threading.Lock()
        self._queries: dict[str, QueryProgress] = {}  # by the query's name in Spark
        self._pipelines: list[Pipeline] = []
        self._admin: Any = None

    def run(self) -> bool:
        """Runs the application; true if all queries ended without an error, or if it was asked to stop."""
        self._folder.take()
        self._folder.write_app(self._app)
        self._folder.write_status({"state": "starting"})
        os.environ["TIDELOG_BOOTSTRAP"] = self._app.bootstrap
        os.environ["TIDELOG_CHECKPOINTS"] = str(self._folder.checkpoints)
        server = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            server = self._serve_metrics()
            return self._drive()
        except _Stopped:
            self._write("stopped")
            return True
        except BaseException as problem:
            self._folder.write_status({"state": "failed", "error": reason_of(problem)})
            raise
        finally:
            if server is not None:
                server.shutdown()
            if self._admin is not None:
                self._admin.close()

    def _stop(self, *_: Any) -> None:
        self._asked.set()
        if self._loading:
            raise _Stopped  # Loading a file may take any time, because the file may do anything.

    def _load(self) -> list[Pipeline]:
        self._loading = True
        try:
            return load(Path(self._app.source), self._app.name, self._app.bootstrap)
        finally:
            self._loading = False

    def _drive(self) -> bool:
        from tidelog.pipeline.streams.session import session

        spark = session(self._app.name, self._app.master, self._app.settings)
        self._pipelines = self._load()
        listener = _listener(self._reported)
        spark.streams.addListener(listener)
        try:
            for pipeline in self._pipelines:
                only = pipeline.wanted.only or tuple(pipeline.outputs())
                for name in only:
                    shown_name = name if len(self._pipelines) == 1 else f"{pipeline.name}.{name}"
                    progress = QueryProgress(
                        shown_name, "starting", positions=positions_of(pipeline.folder(name))
                    )
                    self._queries[f"{pipeline.name}.{name}"] = progress
                pipeline.start(*only, until_done=self._app.until_done or pipeline.wanted.until_done)
            self._write("running")
            self._say(
                f"running {self._app.name}: {', '.join(query.name for query in self._queries.values())}"
            )
            failed = self._watch()
        finally:
            for pipeline in self._pipelines:
                pipeline.stop()
            spark.streams.removeListener(listener)
        self._write("failed" if failed else "stopped" if self._asked.is_set() else "ended")
        return not failed

    def _watch(self) -> bool:
        """Waits until all queries have ended, one has failed (true), or the application was asked to stop."""
        while True:
            waits = False
            failed = False
            for pipeline in self._pipelines:
                pipeline.settle()
                for name, query in pipeline.queries.items():
                    progress = self._queries[f"{pipeline.name}.{name}"]
                    problem = None if query.isActive else query.exception()
                    waits = waits or query.isActive
                    progress.state = "running" if query.isActive else "failed" if problem else "ended"
                    if problem is not None:
                        failed, progress.error = True, reason_of(problem)
            self._look_up_ends()
            self._write("running")
            if failed or not waits or self._asked.wait(STATUS_EVERY_S):
                return failed

    def _reported(self, text: str) -> None:
        progress = json.loads(text)
        with self._lock:
            query = self._queries.get(progress.get("name") or "")
            if query is not None:
                query.reported(progress, time.time_ns() // 1_000_000)

    def _look_up_ends(self) -> None:
        with self._lock:
            wanted = {
                TopicPartition(topic, int(index))
                for query in self._queries.values()
                for topic, partitions in query.positions.items()
                for index in partitions
            }
        if not wanted:
            return
        try:
            if self._admin is None:
                self._admin = self._pipelines[0].admin()
            offsets = self._admin.list_offsets(dict.fromkeys(wanted, "latest"))
        except (TidelogError, ExceptionGroup):
            return  # The broker cannot be reached: the last lag stays, and the query itself reports the problem.
        ends = {
            (partition.topic, partition.partition): offset.offset for partition, offset in offsets.items()
        }
        with self._lock:
            for query in self._queries.values():
                query.ends(ends)

    def _write(self, state: str) -> None:
        with self._lock:
            queries = {query.name: query.json() for query in self._queries.values()}
            text = prometheus(self._app.name, self._queries)
        errors = [query["error"] for query in queries.values() if query["error"]]
        self._folder.write_status(
            {"state": state, "error": errors[0] if errors else None, "queries": queries}
        )
        self._folder.write_metrics(text)

    def _serve_metrics(self) -> ThreadingHTTPServer | None:
        if self._app.metrics is None:
            return None
        host, _, port = self._app.metrics.rpartition(":")
        runner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with runner._lock:
                    body = prometheus(runner._app.name, runner._queries).encode()
                is_metrics = self.path.split("?")[0] == "/metrics"
                self.send_response(200 if is_metrics else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.end_headers()
                self.wfile.write(body if is_metrics else b"there is /metrics\n")

            def log_message(self, format: str, *args: Any) -> None:
                pass

        try:
            server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), Handler)
        except OSError as problem:
            raise PipelineError(
                f"metrics cannot be served on {self._app.metrics}: {problem.strerror}"
            ) from None
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
        self._say(f"metrics http://{host or '127.0.0.1'}:{server.server_port}/metrics")
        return server


def _listener(reported: Callable[[str], None]) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class ProgressListener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            reported(event.progress.json)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            pass

    return ProgressListener()


class _Stopped(BaseException):
    """The application was asked to stop while files were loaded."""


OURS = re.compile(r"(?:^|[\s(])tidelog\.[a-z_.]+\.[A-Z]\w*: ")
RAISED = ("PipelineError: ", "USER_RAISED_EXCEPTION] ")
TRACEBACK = "Traceback (most recent call last):"


def reason_of(problem: BaseException) -> str:
    """The part of Spark's long error that a person needs: Tidelog's own message if there is one, otherwise the error that
    Python raised, otherwise the first line."""
    text = str(problem) or type(problem).__name__
    ours = [match.end() for match in OURS.finditer(text)]
    ours += [at + len(mark) for mark in RAISED if (at := text.rfind(mark)) >= 0]
    if ours:
        return _first_line(text[max(ours) :])
    if TRACEBACK in text:
        # Frames are indented; the line after them names the error.
        behind = text.rsplit(TRACEBACK, 1)[1].splitlines()
        raised = next((line for line in behind if line.strip() and not line[0].isspace()), None)
        if raised is not None:
            return raised.strip()[:ERROR_CHARS_MAX]
    return _first_line(text)


def _first_line(text: str) -> str:
    lines: Iterable[str] = (
        JAVA_CLASS.sub("", line.strip()) for line in text.splitlines() if not line.startswith(OF_PY4J)
    )
    return next((line for line in lines if line), text)[:ERROR_CHARS_MAX]
