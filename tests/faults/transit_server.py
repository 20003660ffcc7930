"""A server with the HTTP API of Vault's transit engine, as its documentation has it: not Vault itself.  It can be taken away
and brought back on the same port, and keeps its keys meanwhile."""

from __future__ import annotations

import base64
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tidelog._speed.log.encrypted_frames import AesGcm

TOKEN = "s.token-of-the-broker"


class TransitServer:
    def __init__(self) -> None:
        self.keys: dict[str, dict[int, bytes]] = {}
        self.deletable: set[str] = set()
        self.asked: list[str] = []
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        transit = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size) or b"{}")
                transit.asked.append(f"{self.command} {self.path}")
                if self.headers.get("X-Vault-Token") != TOKEN:
                    status, found = 403, {"errors": ["permission denied"]}
                else:
                    status, found = transit.serve(self.command, self.path.removeprefix("/v1/transit/"), body)
                data = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def serve(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        what, _, rest = path.partition("/")
        if path == "keys?list=true":
            return (200, {"data": {"keys": sorted(self.keys)}}) if self.keys else (404, {"errors": []})
        name, _, action = rest.partition("/")
        if what == "keys" and method == "POST" and not action:
            self.keys.setdefault(name, {1: os.urandom(32)})
            return 200, {"data": {"name": name, "latest_version": 1}}
        versions = self.keys.get(name)
        if versions is None:
            return (
                (404, {"errors": []}) if what == "keys" else (400, {"errors": ["encryption key not found"]})
            )
        if what == "keys":
            return self._change(method, name, action, versions, body)
        context = base64.b64decode(body["associated_data"])
        if what == "encrypt":
            nonce = os.urandom(12)
            sealed = nonce + AesGcm(versions[max(versions)]).seal(
                nonce, base64.b64decode(body["plaintext"]), context
            )
            return 200, {
                "data": {"ciphertext": f"vault:v{max(versions)}:{base64.b64encode(sealed).decode()}"}
            }
        assert what == "decrypt"
        _, version, text = body["ciphertext"].split(":")
        sealed = base64.b64decode(text)
        plain = AesGcm(versions[int(version[1:])]).open(sealed[:12], sealed[12:], context)
        if plain is None:
            return 400, {"errors": ["cipher: message authentication failed"]}
        return 200, {"data": {"plaintext": base64.b64encode(plain).decode()}}

    def _change(
        self, method: str, name: str, action: str, versions: dict[int, bytes], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        if method == "DELETE":
            if name not in self.deletable:
                return 400, {"errors": ["deletion is not allowed for this key"]}
            del self.keys[name]
        elif action == "rotate":
            versions[max(versions) + 1] = os.urandom(32)
        elif action == "config" and body.get("deletion_allowed"):
            self.deletable.add(name)
        return 200, {"data": {"name": name, "latest_version": max(versions)}}
