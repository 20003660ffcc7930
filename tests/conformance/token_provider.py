"""A little OpenID Connect provider over HTTPS: discovery, keys that rotate, log-in page, token endpoint.

It checks what a provider checks: the redirect URL, the client's secret, PKCE, that a code is used once."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import ssl
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from tests.conformance.process import free_port

_ASSERTION_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CLIENT_ID, CLIENT_SECRET = "console", "s3cret:of+the console"


class TokenProvider:
    """`folder` has the certificate of 127.0.0.1 and its authority, made by `make_certificates`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.issuer = f"https://127.0.0.1:{self.port}/realms/tests"
        self.requests: Counter[str] = Counter()
        self.keys: list[RSAKey | ECKey] = []
        self.clients = {CLIENT_ID: CLIENT_SECRET, "brokers": "between-brokers", "orders": "of-orders"}
        self.redirect_urls: list[str] = []
        self.users: dict[str, dict[str, Any]] = {"ann": {"groups": ["staff"]}, "bob": {"groups": []}}
        self.answer_codes: dict[str, dict[str, str]] = {}
        self.changes: dict[str, Any] = {}
        """Claims of the next id tokens that are other than they should be."""
        self.audience: str | None = None
        """Of tokens by client credentials."""
        self.delay_s = 0.0
        self.assertion_keys: dict[str, RSAKey | ECKey] = {}
        """Public keys of clients that prove themselves with an assertion, by the claim sub."""
        self.assertions: list[Any] = []
        """The tokens (header and claims) that clients proved themselves with."""
        self.lifetime_s = 60.0
        """Of tokens by client credentials."""
        self._server: ThreadingHTTPServer | None = None
        self.rotate()

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def jwks_url(self) -> str:
        return f"{self.issuer}/jwks"

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/token"

    def rotate(self, keep: int = 0) -> None:
        """A new key signs from now on; of the old ones, `keep` are still told."""
        made = (
            RSAKey.generate_key(2048, private=True)
            if not self.keys
            else ECKey.generate_key("P-256", private=True)
        )
        self.keys = [made, *self.keys[:keep]]

    def token(self, subject: str, lifetime_s: float = 300, **claims: Any) -> str:
        key, now = self.keys[0], int(time.time())
        algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
        content = {"iss": self.issuer, "sub": subject, "iat": now, "exp": int(now + lifetime_s), **claims}
        header = {"alg": algorithm, "kid": key.thumbprint()}
        return jwt.encode(
            header,
            {name: one for name, one in content.items() if one is not None},
            key,
            algorithms=[algorithm],
        )

    def start(self) -> None:
        provider = self

        class Handler(_ProviderRequest):
            owner = provider

        server = _Server(("127.0.0.1", self.port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "broker.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        self._server = server
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """It may be started again, at the same address."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that do not trust the certificate


class _ProviderRequest(BaseHTTPRequestHandler):
    owner: TokenProvider
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = self._path()
        if path == "/.well-known/openid-configuration":
            issuer = self.owner.issuer
            self._json(
                {
                    "issuer": issuer,
                    "authorization_endpoint": f"{issuer}/authorize",
                    "token_endpoint": f"{issuer}/token",
                    "jwks_uri": f"{issuer}/jwks",
                }
            )
        elif path == "/jwks":
            self._json(
                {"keys": [key.as_dict(private=False, kid=key.thumbprint()) for key in self.owner.keys]}
            )
        elif path == "/authorize":
            self._log_in_page()
        elif path == "/chosen":
            self._chosen()
        else:
            self._json({"error": "not_found"}, 404)

    def do_POST(self) -> None:
        path = self._path()
        form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
        client = self._client(form)
        if path != "/token" or client is None:
            self._json({"error": "invalid_client"}, 401)
        elif form.get("grant_type") in ("client_credentials", _ASSERTION_GRANT):
            lifetime_s = self.owner.lifetime_s
            token = self.owner.token(client, lifetime_s, scope=form.get("scope"), aud=self.owner.audience)
            self._json({"access_token": token, "token_type": "Bearer", "expires_in": lifetime_s})
        else:
            self._exchange(form)

    def _path(self) -> str:
        time.sleep(self.owner.delay_s)
        path = urlsplit(self.path).path.removeprefix(urlsplit(self.owner.issuer).path)
        self.owner.requests[path] += 1
        return path

    def _basic(self) -> tuple[str, str]:
        login = base64.b64decode(self.headers.get("authorization", "").removeprefix("Basic ")).decode()
        name, _, password = login.partition(":")
        return unquote_plus(name), unquote_plus(password)

    def _client(self, form: dict[str, str]) -> str | None:
        """Who asks, by a secret or an assertion; None for nobody that is known."""
        if form.get("grant_type") == _ASSERTION_GRANT:
            return self._asserted(form.get("assertion", ""))
        if form.get("client_assertion_type") == _ASSERTION_TYPE:
            return self._asserted(form.get("client_assertion", ""))
        name, password = self._basic()
        return name if self.owner.clients.get(name) == password else None

    def _asserted(self, assertion: str) -> str | None:
        for client, key in self.owner.assertion_keys.items():
            try:
                proof = jwt.decode(assertion, key, algorithms=["RS256", "ES256"])
                rules = jwt.JWTClaimsRegistry(
                    aud={"essential": True, "value": self.owner.token_url}, exp={"essential": True}
                )
                rules.validate(proof.claims)
            except (JoseError, ValueError):
                continue
            if proof.claims.get("sub") == client and proof.claims.get("iss") == client:
                self.owner.assertions.append(proof)
                return client
        return None

    def _log_in_page(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        assert query["redirect_uri"] in self.owner.redirect_urls and query["client_id"] == CLIENT_ID
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256"
        places = {
            user: f"{self.owner.issuer}/chosen?{urlencode({**query, 'user': user})}"
            for user in self.owner.users
        }
        links = "".join(
            f'<p><a href="{html.escape(place)}">I am {user}</a></p>' for user, place in places.items()
        )
        self._answer(200, f"<!doctype html><title>Who are you?</title>{links}".encode(), "text/html")

    def _chosen(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        code = secrets.token_urlsafe(16)
        self.owner.answer_codes[code] = query
        answer = urlencode({"code": code, "state": query["state"], "iss": self.owner.issuer})
        place = f"{query['redirect_uri']}?{answer}"
        self.send_response(302)
        self.send_header("location", place)
        self.send_header("content-length", "0")
        self.end_headers()

    def _exchange(self, form: dict[str, str]) -> None:
        begun = self.owner.answer_codes.pop(form.get("code", ""), None)
        if begun is None or form.get("redirect_uri") != begun["redirect_uri"]:
            self._json({"error": "invalid_grant"}, 400)
            return
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(challenge).decode().rstrip("=") != begun["code_challenge"]:
            self._json({"error": "invalid_grant", "error_description": "PKCE"}, 400)
            return
        user = begun["user"]
        claims = {"aud": CLIENT_ID, "nonce": begun["nonce"], **self.owner.users[user], **self.owner.changes}
        self._json({"id_token": self.owner.token(user, 60, **claims), "access_token": "unused"})

    def _json(self, content: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(content).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
