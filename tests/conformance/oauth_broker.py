"""A broker whose users are those of a token provider, on every door: its listener, the HTTP port, and the console."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.conformance.process import free_port
from tests.conformance.tidelog_broker import TidelogBroker
from tests.conformance.token_provider import CLIENT_ID, CLIENT_SECRET, TokenProvider
from tidelog import Security

SCRAPE_TOKEN = "a-token-for-scrapers-0123456789"


class OauthBroker(TidelogBroker):
    def __init__(self, home: Path, provider: TokenProvider, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self.provider = provider
        self.authority = provider.ca
        """Of the broker's certificate."""
        self.port = free_port()
        home.mkdir(parents=True, exist_ok=True)
        self.scrape_tokens = home / "scrapers"
        self.scrape_tokens.write_text(f"{SCRAPE_TOKEN}\n")
        provider.redirect_urls.append(f"{self.site}/console/login/oidc/callback")

    @property
    def site(self) -> str:
        return f"https://{self.http}"

    def command(self) -> list[str]:
        provider, folder = self.provider, self.provider.folder
        self.settings = {
            "listeners": f"SEC://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "SEC:SASL_SSL",
            "inter.broker.listener.name": "SEC",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "sasl.oauthbearer.client.credentials.client.id": "brokers",
            "sasl.oauthbearer.client.credentials.client.secret": "between-brokers",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
            "sasl.oauthbearer.expected.issuer": provider.issuer,
            "tidelog.oauthbearer.truststore.location": str(provider.ca),
            "tidelog.oauthbearer.groups.claim.name": "groups",
            "tidelog.oauthbearer.jwks.reload.min.ms": "100",
            "listener.name.sec.tidelog.oauthbearer.required.scopes": "kafka",
            "ssl.keystore.location": str(folder / "broker.pem"),
            "ssl.truststore.location": str(folder / "ca.pem"),
            "tidelog.http.ssl": "true",
            "tidelog.http.oidc.issuer": provider.issuer,
            "tidelog.http.oidc.client.id": CLIENT_ID,
            "tidelog.http.oidc.client.secret": CLIENT_SECRET,
            "tidelog.http.oidc.redirect.url": f"{self.site}/console/login/oidc/callback",
            "tidelog.http.oidc.groups.claim.name": "groups",
            "tidelog.http.oidc.name": "the tests",
            "tidelog.http.metrics.token.file": str(self.scrape_tokens),
            "authorizer.class.name": "tidelog",
            "super.users": "User:admin;User:brokers",
            "connection.failed.authentication.delay.ms": "20",
            **self.settings,
        }
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]  # the settings have the listeners

    def security(self, user: str, **claims: Any) -> Security:
        token = self.provider.token(user, **{"scope": "kafka", **claims})
        return Security(ca=self.provider.ca, mechanism="OAUTHBEARER", token=lambda: token)

    def ask(
        self, method: str, path: str, token: str = "", body: Any = None, headers: dict[str, str] | None = None
    ) -> HttpAnswer:
        context = ssl.create_default_context(cafile=str(self.authority))
        host, _, port = self.http.rpartition(":")
        connection = http.client.HTTPSConnection(host, int(port), timeout=30, context=context)
        sent = dict(headers or {})
        if token:
            sent["authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, str):
            sent["content-type"], body = "application/json", json.dumps(body)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return HttpAnswer(answer.status, answer.getheaders(), answer.read().decode())
        finally:
            connection.close()


class HttpAnswer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    text: str

    @property
    def location(self) -> str:
        return {name.lower(): value for name, value in self.headers}.get("location", "")

    def cookies(self) -> dict[str, tuple[str, str]]:
        """By name: value and attributes."""
        found = {}
        for name, value in self.headers:
            if name.lower() == "set-cookie":
                pair, _, attributes = value.partition(";")
                key, _, text = pair.partition("=")
                found[key] = text.strip('"'), attributes.lower()
        return found


class PlainBrowser:
    """Keeps the cookies of the console, and follows a log-in through the provider step by step."""

    def __init__(self, broker: OauthBroker) -> None:
        self.broker = broker
        self.cookies: dict[str, str] = {}

    def get(self, address: str) -> HttpAnswer:
        return self._keep(
            self.broker.ask("GET", address.removeprefix(self.broker.site), "", None, self._headers())
        )

    def post(self, path: str, form: dict[str, str]) -> HttpAnswer:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self._keep(self.broker.ask("POST", path, "", urlencode(form), self._headers() | kind))

    def _headers(self) -> dict[str, str]:
        return {
            "accept": "text/html",
            "cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
        }

    def _keep(self, answer: HttpAnswer) -> HttpAnswer:
        for name, (value, attributes) in answer.cookies().items():
            if "max-age=0" in attributes:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return answer

    def at_provider(self, user: str, following: str = "/") -> str:
        """Begins at the console, chooses a user at the provider; the address that it sends the browser back to."""
        begun = self.get(f"/console/login/oidc?{urlencode({'next': following})}")
        assert begun.status == 303, begun
        context = ssl.create_default_context(cafile=str(self.broker.provider.ca))

        def visit(address: str) -> tuple[str, str]:
            port = self.broker.provider.port
            link = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
            link.request("GET", address.removeprefix(f"https://127.0.0.1:{port}"))
            answer = link.getresponse()
            return answer.getheader("location") or "", answer.read().decode()

        _, page = visit(begun.location)
        chosen = re.search(rf'href="([^"]+)">I am {user}<', page)
        assert chosen is not None, page
        back, _ = visit(chosen[1].replace("&amp;", "&"))
        return back
