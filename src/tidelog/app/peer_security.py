"""How this broker connects to other brokers: the settings of the listener for brokers, from the asking side."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.config import BrokerConfig
from tidelog.config.listener_security import MECHANISMS, ListenerSecurity
from tidelog.config.oauth import TokenClient
from tidelog.errors import InvalidConfig
from tidelog.net.kerberos_login import KerberosLogin
from tidelog.net.sasl import Token
from tidelog.net.tls_files import TlsContext, client_context
from tidelog.net.token_client import ClientCredentials


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    mechanism: str | None
    username: str | None
    password: str | None = field(repr=False)
    token: Token | None = None
    kerberos: KerberosLogin | None = None


class ListenerPeers:
    """`config` is asked for each connection: certificates and passwords can change while the broker runs."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self._tls = TlsContext(lambda: self._security().tls, client_context)
        self._token_client: tuple[TokenClient, ClientCredentials] | None = None

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
        listener = self._config().inter_broker_listener.lower()
        if mechanism not in MECHANISMS:
            raise InvalidConfig(
                f"sasl.mechanism.inter.broker.protocol cannot be {mechanism}: use one of {', '.join(MECHANISMS)}"
            )
        if mechanism == "OAUTHBEARER":
            return BrokerLogin(mechanism, None, None, self._credentials(security, listener))
        if mechanism == "GSSAPI":
            return BrokerLogin(mechanism, None, None, kerberos=_kerberos(security, listener))
        entry = security.jaas.get(mechanism)
        if entry is None or entry.username is None or entry.password is None:
            raise InvalidConfig(
                "brokers have no login for each other: set "
                f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config with username and password"
            )
        return BrokerLogin(mechanism, entry.username, entry.password)

    def _credentials(self, security: ListenerSecurity, listener: str) -> ClientCredentials:
        """Keeps its token for as long as the settings stay."""
        client = security.oauth.client
        if client is None:
            raise InvalidConfig(
                "brokers have no token for each other: set "
                f"listener.name.{listener}.sasl.oauthbearer.token.endpoint.url (https:, or the file: of a token)"
            )
        if self._token_client is None or self._token_client[0] != client:
            try:
                credentials = ClientCredentials(
                    client.url,
                    client.client_id,
                    client.client_secret,
                    client.scope,
                    connection=client.connection,
                    assertion=client.assertion,
                    assertion_is_grant=client.assertion_is_grant,
                    refresh=client.refresh,
                )
            except ValueError:
                raise InvalidConfig(
                    "sasl.oauthbearer.token.endpoint.url needs sasl.oauthbearer.client.credentials.client.id and .secret, "
                    "or sasl.oauthbearer.assertion.file or .private.key.file"
                ) from None
            self._token_client = client, credentials
        return self._token_client[1]


def _kerberos(security: ListenerSecurity, listener: str) -> KerberosLogin:
    kerberos = security.kerberos
    if not kerberos.keytab or kerberos.principal is None or not kerberos.service_name:
        raise InvalidConfig(
            f"brokers have no login for each other: set listener.name.{listener}.gssapi.sasl.jaas.config with keyTab and "
            "principal, and sasl.kerberos.service.name"
        )
    return KerberosLogin(kerberos.service_name, kerberos.principal, kerberos.keytab)
