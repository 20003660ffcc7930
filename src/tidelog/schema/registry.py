"""A client of a schema registry with Confluent's HTTP API; answers that cannot change are cached.

Blocking, and safe to share between threads.  Asyncio clients ask it in a thread of their own.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from tidelog.errors import TidelogError

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
ANSWER_BYTES_MAX = 64 << 20


class RegistryError(TidelogError):
    """The registry refused a request or did not answer; `status` is the HTTP status, 0 without an answer."""

    status = 0

    @classmethod
    def of(cls, message: str, status: int) -> RegistryError:
        problem = cls(message)
        problem.status = status
        return problem


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema as it is registered; `kind` is AVRO, PROTOBUF or JSON."""

    text: str
    kind: str = "AVRO"
    references: tuple[tuple[str, str, int], ...] = ()
    """Name, subject and version of each schema that this one needs."""

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"schema": self.text}
        if self.kind != "AVRO":
            body["schemaType"] = self.kind
        if self.references:
            body["references"] = [
                {"name": name, "subject": subject, "version": version}
                for name, subject, version in self.references
            ]
        return body


class Registry:
    """
    registry = Registry("http://127.0.0.1:8081")
    registry = Registry(["https://one:8081", "https://two:8081"], username="me", password="secret")
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        authorization: Callable[[str], str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_ms: int = 10_000,
    ) -> None:
        self._urls = [urls] if isinstance(urls, str) else list(urls)
        for url in self._urls:
            if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
                raise ValueError(f"{url!r} is not the address of a registry: write http://HOST:PORT")
        if not self._urls:
            raise ValueError("no address of a registry given: write http://HOST:PORT")
        self._login = None if username is None else (username, password or "")
        self._token = token
        self._authorization = authorization
        """Makes the Authorization header of each request, given the host: for tickets, which count once."""
        self._ssl_context = ssl_context
        self._timeout_s = timeout_ms / 1000
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, Registered], int] = {}
        self._schemas: dict[int, Registered] = {}
        self._latest: dict[str, tuple[int, Registered]] = {}

    def register(self, subject: str, schema: Registered, normalize: bool = False) -> int:
        """The schema's id; registers the schema if the subject does not have it yet.  With `normalize`, schemas that only
        differ in the order of their parts are the same."""
        return self._id(subject, schema, f"/subjects/{quote(subject, safe='')}/versions", normalize)

    def look_up(self, subject: str, schema: Registered, normalize: bool = False) -> int:
        """The id of a schema that the subject must have already."""
        return self._id(subject, schema, f"/subjects/{quote(subject, safe='')}", normalize)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Sends a request to any endpoint, such as `ask("GET", "/subjects")`; returns the decoded JSON answer."""
        return self._ask(method, path, body)

    def _id(self, subject: str, schema: Registered, path: str, normalize: bool) -> int:
        with self._lock:
            cached = self._ids.get((subject, schema))
        if cached is None:
            cached = int(self._ask("POST", path + "?normalize=true" * normalize, schema.body())["id"])
            with self._lock:
                self._ids[(subject, schema)] = cached
                self._schemas.setdefault(cached, schema)
        return cached

    def version_of(self, subject: str, schema: Registered) -> int:
        path = f"/subjects/{quote(subject, safe='')}"
        return int(self._ask("POST", path, schema.body())["version"])

    def schema(self, schema_id: int) -> Registered:
        with self._lock:
            cached = self._schemas.get(schema_id)
        if cached is None:
            cached = _registered(self._ask("GET", f"/schemas/ids/{schema_id}"))
            with self._lock:
                self._schemas[schema_id] = cached
        return cached

    def version(self, subject: str, version: int) -> Registered:
        return _registered(self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}"))

    def has(self, schema_id: int) -> bool:
        """True if `schema` needs no request."""
        with self._lock:
            return schema_id in self._schemas

    def latest(self, subject: str) -> tuple[int, Registered]:
        """The subject's newest schema, cached at the first call."""
        with self._lock:
            cached = self._latest.get(subject)
        if cached is None:
            answer = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
            cached = int(answer["id"]), _registered(answer)
            with self._lock:
                self._latest[subject] = cached
                self._schemas.setdefault(*cached)
        return cached

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        problem: RegistryError | None = None
        for url in self._urls:
            try:
                return self._ask_one(url, method, path, body)
            except RegistryError as failed:
                # Another node may be up; a refusal of one node is that of all.
                if 0 < failed.status < 500:
                    raise
                problem = failed
        assert problem is not None
        raise problem

    def _ask_one(self, url: str, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        parts = urlsplit(url)
        assert parts.hostname is not None
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=self._timeout_s, context=self._ssl_context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=self._timeout_s)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, parts.path.rstrip("/") + path, content, self._headers(parts))
            answer = connection.getresponse()
            data = answer.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as failed:
            reason = str(failed) or type(failed).__name__
            raise RegistryError(
                f"the schema registry at {url} does not answer: {reason}; is it running?"
            ) from failed
        finally:
            connection.close()
        if answer.status != 200:
            raise RegistryError.of(f"the schema registry at {url} says: {_said(answer, data)}", answer.status)
        try:
            answered: dict[str, Any] = json.loads(data)
        except ValueError:
            raise RegistryError(
                f"the schema registry at {url} did not answer in JSON: is it a schema registry?"
            ) from None
        return answered

    def _headers(self, parts: Any) -> dict[str, str]:
        headers = {"Content-Type": CONTENT_TYPE, "Accept": CONTENT_TYPE}
        login = self._login
        if login is None and parts.username is not None:
            login = unquote(parts.username), unquote(parts.password or "")
        if login is not None:
            packed = base64.b64encode(f"{login[0]}:{login[1]}".encode()).decode()
            headers["Authorization"] = f"Basic {packed}"
        elif self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        elif self._authorization is not None:
            headers["Authorization"] = self._authorization(parts.hostname)
        return headers


def _registered(answer: dict[str, Any]) -> Registered:
    references = tuple(
        (reference["name"], reference["subject"], reference["version"])
        for reference in answer.get("references") or ()
    )
    return Registered(answer["schema"], answer.get("schemaType") or "AVRO", references)


def _said(answer: http.client.HTTPResponse, data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.status} {answer.reason}"
