"""TLS of the HTTP port: `tidelog.http.ssl`, with the settings of the broker or those below `listener.name.http.`.

Certificates are loaded again when their files change: each handshake takes the context of that moment."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from tidelog.config import BrokerConfig
from tidelog.net.tls_files import TlsContext, client_context


def server_tls(config: Callable[[], BrokerConfig]) -> ssl.SSLContext | None:
    """None for plain text.  InvalidConfig when there is no certificate, or it cannot be read."""
    if not config().http_security.encrypts:
        return None
    files = TlsContext(lambda: config().http_security.tls)
    first = files.get()

    def choose(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        current = files.get()
        if current is not first:
            connection.context = current

    first.sni_callback = choose  # OpenSSL calls it for clients that send no name, too
    return first


def peer_tls(config: Callable[[], BrokerConfig]) -> Callable[[], ssl.SSLContext | None]:
    """The asking side: how this broker reaches the HTTP ports of the others, which have the same settings."""
    files = TlsContext(lambda: config().http_security.tls, client_context)
    return lambda: files.get() if config().http_security.encrypts else None
