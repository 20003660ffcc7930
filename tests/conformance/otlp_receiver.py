"""A small OTLP receiver: a real HTTP server that decodes what it gets, and fails as it is told."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.otlp_messages import MetricsData, resource_of


class OtlpReceiver:
    """`failures`: statuses of the next requests, before requests are accepted again."""

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.failures: deque[int] = deque()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.accepted: list[Any] = []
        """ResourceMetrics."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._handle(self)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def of_client(self, client_id: str) -> list[Any]:
        return [metrics for metrics in list(self.accepted) if resource_of(metrics)["client_id"] == client_id]

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["content-length"]))
        self.requests.append((request.path, {name.lower(): value for name, value in request.headers.items()}))
        status = self.failures.popleft() if self.failures else 200
        if status == 200:
            assert request.headers["content-encoding"] == "gzip"
            self.accepted += MetricsData.FromString(gzip.decompress(body)).resource_metrics
        request.send_response(status)
        if status == 429:
            request.send_header("retry-after", "0")
        request.send_header("content-length", "0")
        request.end_headers()
