"""SASL PLAIN (RFC 4616): a user name and a password in the clear, for encrypted connections.  Pure."""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from tidelog.access.scram import ScramCredentials
from tidelog.errors import SaslAuthenticationFailed
from tidelog.net.scram import ScramCredential

MESSAGE_BYTES_MAX = 16_384


class PlainLogin(NamedTuple):
    username: str
    password: str

    def __repr__(self) -> str:
        """Without the password: it must not get into logs and error texts."""
        return f"PlainLogin(username={self.username!r})"


def parse_plain(message: bytes) -> PlainLogin:
    """`[authzid] NUL authcid NUL password`, with Kafka's words for what is wrong."""
    try:
        parts = message[:MESSAGE_BYTES_MAX].decode().split("\0")
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("Invalid SASL/PLAIN response: it is not UTF-8") from None
    if len(message) > MESSAGE_BYTES_MAX or len(parts) != 3:
        raise SaslAuthenticationFailed(
            f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}"
        )
    authzid, username, password = parts
    if not username:
        raise SaslAuthenticationFailed("Authentication failed: username not specified")
    if not password:
        raise SaslAuthenticationFailed("Authentication failed: password not specified")
    if authzid and authzid != username:
        raise SaslAuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return PlainLogin(username, password)


def password_fits(mechanism: str, credential: ScramCredential, password: str) -> bool:
    """True if the SCRAM credential was made from this password.  Takes milliseconds: not for the event loop."""
    tried = ScramCredential.of_password(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(tried.stored_key, credential.stored_key)


def password_accepted(mechanism: str, credentials: ScramCredentials, login: PlainLogin) -> bool:
    """As long for a user that does not exist as for one that does."""
    credential, user_exists = credentials.find(login.username)
    return password_fits(mechanism, credential, login.password) and user_exists


def listed_password_accepted(listed: dict[str, str], login: PlainLogin) -> bool:
    """Against the `user_NAME="..."` entries of a JAAS configuration.  Hashed first, so that the comparison takes as
    long whatever the lengths."""
    expected = listed.get(login.username)
    tried = hashlib.sha256(login.password.encode()).digest()
    fits = hmac.compare_digest(tried, hashlib.sha256((expected or "").encode()).digest())
    return fits and expected is not None
