"""What a client needs to log in with Kerberos.  Apart from `net.sasl`, so that describing a log-in loads no event loop."""

from __future__ import annotations

from typing import NamedTuple


class KerberosLogin(NamedTuple):
    service_name: str
    """The first part of the brokers' principals."""
    principal: str | None
    keytab: str | None
    """None: the tickets that `kinit` got."""
