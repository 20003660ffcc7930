"""Tokens for the asking side of OAUTHBEARER: the client credentials grant (RFC 6749, 4.4) at a token endpoint, with a
secret or a client assertion; an assertion as the grant (RFC 7523, 2.1); or a file that something else renews, as Kubernetes
does for service accounts.

A token is used again until its renewal is due (`net.login_refresh`), and until its end while the provider does not answer.
An instance may serve connections of several event loops."""

from __future__ import annotations

import base64
import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from os import PathLike, fspath
from urllib.parse import quote_plus, urlencode, urlsplit

from tidelog import errors
from tidelog.config.oauth import ClientAssertion, LoginRefresh, ProviderConnection, checked_url
from tidelog.net.client_assertion import assertion_of
from tidelog.net.login_refresh import refresh_after_s, retry_after_s
from tidelog.net.provider_request import ProviderFailed, ask_for_object, ask_provider

LIFE_S = 60.0
"""Of a token whose answer does not say how long it is valid."""
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(slots=True)
class ClientCredentials:
    """
    Security(tls=True, mechanism="OAUTHBEARER", token=ClientCredentials(
        "https://login.example/token", "orders", "secret", scope="kafka"))

    `url`: the provider's token endpoint, or a file: URL of a token.  `ca`: PEM file with the provider's authorities, by
    default those of the system.
    """

    url: str
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    ca: str | PathLike[str] | None = None
    timeout_ms: int = 10_000
    connection: ProviderConnection | None = field(default=None, repr=False)
    """In place of `ca` and `timeout_ms`."""
    assertion: ClientAssertion | None = field(default=None, repr=False)
    """In place of the client's secret."""
    assertion_is_grant: bool = False
    refresh: LoginRefresh = field(default_factory=LoginRefresh, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _token: str = field(default="", init=False, repr=False, compare=False)
    _end_s: float = field(default=0.0, init=False, repr=False, compare=False)
    """When the token's life is over."""
    _ask_s: float = field(default=0.0, init=False, repr=False, compare=False)
    """When the provider may be asked again."""
    _failures: int = field(default=0, init=False, repr=False, compare=False)
    _problem: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            checked_url(self.url, "the token endpoint")
        except errors.InvalidConfig as problem:
            raise ValueError(str(problem)) from None
        if self._is_file:
            return
        if self.assertion is None and (
            self.assertion_is_grant or not self.client_id or not self.client_secret
        ):
            raise ValueError("a token endpoint needs client_id and client_secret, or an assertion")

    @property
    def _is_file(self) -> bool:
        return urlsplit(self.url).scheme == "file"

    def __call__(self) -> str:
        """SaslAuthenticationFailed when there is no token.  Blocks: `net.sasl` calls it in a thread."""
        with self._lock:
            now_s = time.monotonic()
            if now_s >= self._ask_s:
                self._ask(now_s)
            if self._problem and time.monotonic() >= self._end_s:
                raise errors.SaslAuthenticationFailed(f"no token for OAUTHBEARER: {self._problem}")
            return self._token

    def _ask(self, now_s: float) -> None:
        try:
            self._token, life_s = self._read() if self._is_file else self._granted()
        except ProviderFailed as problem:
            # Connections get the same failure until then: they do not all ask the endpoint.
            self._failures += 1
            self._problem = str(problem)
            self._ask_s = time.monotonic() + retry_after_s(self._failures, self.refresh)
        else:
            self._failures, self._problem = 0, ""
            self._end_s = now_s + life_s
            self._ask_s = now_s + refresh_after_s(life_s, self.refresh, random.random())

    @property
    def _how(self) -> ProviderConnection:
        if self.connection is not None:
            return self.connection
        ca = None if self.ca is None else fspath(self.ca)
        return ProviderConnection(ca, self.timeout_ms, self.timeout_ms)

    def _read(self) -> tuple[str, float]:
        try:
            text = ask_provider(self.url, self._how).decode("ascii").strip()
        except UnicodeDecodeError:
            text = ""
        if not text:
            raise ProviderFailed(f"{urlsplit(self.url).path} has no token in it")
        return text, 0.0  # read for each connection: whoever renews it says nothing here

    def _granted(self) -> tuple[str, float]:
        form = {"grant_type": _ASSERTION_GRANT if self.assertion_is_grant else "client_credentials"}
        headers = {"content-type": "application/x-www-form-urlencoded"}
        if self.assertion is None:
            assert self.client_id is not None and self.client_secret is not None
            login = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
            headers["authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        else:
            assertion = assertion_of(self.assertion, time.time(), str(uuid.uuid4()))
            if self.assertion_is_grant:
                form["assertion"] = assertion
            else:
                form |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": assertion}
                form |= {"client_id": self.client_id} if self.client_id else {}
        form |= {"scope": self.scope} if self.scope else {}
        answer = ask_for_object(self.url, self._how, body=urlencode(form).encode(), headers=headers)
        token, life_s = answer.get("access_token"), answer.get("expires_in", LIFE_S)
        if not isinstance(token, str) or not token:
            raise ProviderFailed("the token endpoint gave no access_token")
        if isinstance(life_s, bool) or not isinstance(life_s, int | float):
            life_s = LIFE_S
        return token, max(0.0, life_s)
