"""The login of a gateway's client, on behalf of the user of the HTTP request."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.client.security.security import Security


@dataclass(frozen=True, slots=True)
class OnBehalf(Security):
    """`mechanism` is one that no listener offers; `token` returns a message signed at that moment."""

    def __post_init__(self) -> None:
        assert self.token is not None
