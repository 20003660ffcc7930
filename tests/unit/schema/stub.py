"""A schema registry in memory, as far as clients need it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class Stub:
    def __init__(self) -> None:
        self.subjects: dict[str, list[int]] = {}
        self.schemas: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self.url = ""

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        match method, parts:
            case "GET", ["schemas", "ids", number]:
                if 0 < int(number) <= len(self.schemas):
                    return 200, self.schemas[int(number) - 1]
                return 404, {"error_code": 40403, "message": "Schema not found"}
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self._add(subject, body), **body}
            case "POST", ["subjects", subject]:
                for version, number in enumerate(self.subjects.get(subject, []), 1):
                    if self._same(self.schemas[number - 1], body):
                        return 200, {"subject": subject, "version": version, "id": number, **body}
                return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
            case "GET", ["subjects", subject, "versions", wanted]:
                versions = self.subjects.get(subject, [])
                if not versions:
                    return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
                version = len(versions) if wanted == "latest" else int(wanted)
                number = versions[version - 1]
                return 200, {"subject": subject, "version": version, "id": number, **self.schemas[number - 1]}
        return 404, {"message": "HTTP 404 Not Found"}

    def _same(self, first: dict[str, Any], other: dict[str, Any]) -> bool:
        keys = ("schema", "schemaType", "references")
        return all((first.get(key) or None) == (other.get(key) or None) for key in keys)

    def _add(self, subject: str, body: dict[str, Any]) -> int:
        schema = {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}
        if schema.get("schemaType") == "AVRO":
            del schema["schemaType"]
        same = [at for at, known in enumerate(self.schemas, 1) if self._same(known, schema)]
        if not same:
            self.schemas.append(schema)
        number = same[0] if same else len(self.schemas)
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number


@contextmanager
def registry_stub() -> Iterator[Stub]:
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            stub.asked.append(f"{self.command} {self.path}")
            stub.authorizations.append(self.headers.get("Authorization"))
            status, answer = stub.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _handle  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
