"""What a broker's HTTP port says when it connects to a broker on behalf of a user: the principal, with an HMAC of the
cluster's secret.  `gateways.http` writes these messages, `broker.login` and the HTTP port of other brokers check them.

A message counts for 30 seconds.  No listener offers the mechanism, and a broker without the secret accepts no message."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import NamedTuple

MECHANISM = "TIDELOG-ON-BEHALF"
BROKER = "Broker:this cluster"
"""The principal of what a broker does by itself.  No login of a user yields a principal of this kind."""
LIFETIME_MS = 30_000
MESSAGE_BYTES_MAX = 65_536
_PURPOSE = b"tidelog on behalf\0"


class Behalf(NamedTuple):
    principal: str
    groups: tuple[str, ...]
    """Further principals, such as Group:staff."""
    host: str
    """The address that the user came from, for ACLs that name hosts."""


def sign(secret: bytes, behalf: Behalf, now_ms: int) -> str:
    assert secret
    fields = [behalf.principal, list(behalf.groups), behalf.host, now_ms + LIFETIME_MS]
    content = base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode())
    return f"{content.decode()}.{_mac(secret, content)}"


def verify(secret: bytes, message: bytes, now_ms: int) -> Behalf | None:
    """None for anything but a message of the last 30 seconds that was signed with this secret."""
    content, _, mac = message[:MESSAGE_BYTES_MAX].partition(b".")
    if not secret or not hmac.compare_digest(_mac(secret, content).encode(), mac):
        return None
    principal, groups, host, expires_ms = json.loads(base64.urlsafe_b64decode(content))
    # The clocks of two brokers may differ by as much as a message counts.
    if not now_ms <= expires_ms <= now_ms + 2 * LIFETIME_MS:
        return None
    return Behalf(principal, tuple(groups), host)


def _mac(secret: bytes, content: bytes) -> str:
    return hmac.new(secret, _PURPOSE + content, hashlib.sha256).hexdigest()
