"""How this broker connects to other brokers: the settings of the listener for brokers, from the asking side."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.config import BrokerConfig
from tidelog.config.listener_security import MECHANISMS, ListenerSecurity
from tidelog.errors import InvalidConfig
from tidelog.net.sasl import Token
from tidelog.net.tls_files import TlsContext, client_context


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    mechanism: str | None
    username: str | None
    password: str | None = field(repr=False)
    token: Token | None = None


class ListenerPeers:
    """`config` is asked for each connection: certificates and passwords can change while the broker runs."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self._tls = TlsContext(lambda: self._security().tls, client_context)

    def _security(self) -> ListenerSecurity:
        config = self._config()
        return config.security.get(config.inter_broker_listener) or ListenerSecurity()

    def tls(self) -> ssl.SSLContext | None:
        return self._tls.get() if self._security().encrypts else None

    def login(self) -> BrokerLogin | None:
        security = self._security()
        if not security.has_login:
            return None
        mechanism = self._config().sasl_mechanism_inter_broker_protocol
        entry = security.jaas.get(mechanism)
        if mechanism not in MECHANISMS or mechanism == "OAUTHBEARER":
            raise InvalidConfig(
                f"sasl.mechanism.inter.broker.protocol cannot be {mechanism}: use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
            )
        if entry is None or entry.username is None or entry.password is None:
            listener = self._config().inter_broker_listener.lower()
            raise InvalidConfig(
                "brokers have no login for each other: set "
                f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config with username and password"
            )
        return BrokerLogin(mechanism, entry.username, entry.password)
