"""Tokens for the asking side of OAUTHBEARER: the client credentials grant (RFC 6749, 4.4) at a token endpoint, or a file
that something else renews, as Kubernetes does for service accounts.

A token is used again until a fifth of its life is left.  An instance may serve connections of several event loops."""

from __future__ import annotations

import base64
import threading
import time
from dataclasses import dataclass, field
from os import PathLike, fspath
from urllib.parse import quote_plus, urlencode, urlsplit

from tidelog import errors
from tidelog.config.oauth import ProviderConnection, checked_url
from tidelog.net.provider_request import ProviderFailed, ask_for_object, ask_provider

LIFE_USED = 0.8
LIFE_S = 60.0
"""Of a token whose answer does not say how long it is valid."""
REFUSED_S = 1.0
"""After a failure, connections get the same failure for this long: they do not all ask the endpoint."""


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
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)
    _token: str = field(default="", init=False, repr=False, compare=False)
    _until_s: float = field(default=0.0, init=False, repr=False, compare=False)
    _problem: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            checked_url(self.url, "the token endpoint")
        except errors.InvalidConfig as problem:
            raise ValueError(str(problem)) from None
        if not self._is_file and (not self.client_id or not self.client_secret):
            raise ValueError("a token endpoint needs client_id and client_secret")

    @property
    def _is_file(self) -> bool:
        return urlsplit(self.url).scheme == "file"

    def __call__(self) -> str:
        """SaslAuthenticationFailed when there is no token.  Blocks: `net.sasl` calls it in a thread."""
        with self._lock:
            if time.monotonic() >= self._until_s:
                try:
                    self._token, life_s = self._read() if self._is_file else self._granted()
                    self._problem = ""
                except ProviderFailed as problem:
                    self._token, life_s, self._problem = "", REFUSED_S, str(problem)
                self._until_s = time.monotonic() + life_s
            if self._problem:
                raise errors.SaslAuthenticationFailed(f"no token for OAUTHBEARER: {self._problem}")
            return self._token

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
        assert self.client_id is not None and self.client_secret is not None
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        login = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        answer = ask_for_object(
            self.url,
            self._how,
            body=urlencode(form).encode(),
            headers={
                "content-type": "application/x-www-form-urlencoded",
                "authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
            },
        )
        token, life_s = answer.get("access_token"), answer.get("expires_in", LIFE_S)
        if not isinstance(token, str) or not token:
            raise ProviderFailed("the token endpoint gave no access_token")
        if isinstance(life_s, bool) or not isinstance(life_s, int | float):
            life_s = LIFE_S
        return token, max(0.0, LIFE_USED * life_s)
