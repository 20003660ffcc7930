"""TLS of the HTTP port: `tidelog.http.ssl`, with the settings of the broker or those below `listener.name.http.`.

Certificates are loaded again when their files change: each handshake takes the context of that moment."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from tidelog.config import BrokerConfig
from tidelog.net.tls_files import TlsContext, TlsSettings, client_context, server_context


class NewestContext(ssl.SSLContext):
    """What asyncio's server holds for as long as it runs; every handshake gets the context of its moment, with its
    certificate, its authorities, its versions and whether clients must show a certificate."""

    _files: TlsContext

    @classmethod
    def of(cls, files: TlsContext) -> NewestContext:
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made._files = files
        return made

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return self._files.get().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def server_tls(config: Callable[[], BrokerConfig]) -> ssl.SSLContext | None:
    """None for plain text.  InvalidConfig when there is no certificate, or it cannot be read."""
    if not config().http_security.encrypts:
        return None
    files = TlsContext(lambda: config().http_security.tls, _http_context)
    files.get()  # a certificate that cannot be read stops the start
    return NewestContext.of(files)


def _http_context(settings: TlsSettings) -> ssl.SSLContext:
    context = server_context(settings)
    context.set_alpn_protocols(["http/1.1"])
    return context


def peer_tls(config: Callable[[], BrokerConfig]) -> Callable[[], ssl.SSLContext | None]:
    """The asking side: how this broker reaches the HTTP ports of the others, which have the same settings."""
    files = TlsContext(lambda: config().http_security.tls, client_context)
    return lambda: files.get() if config().http_security.encrypts else None
