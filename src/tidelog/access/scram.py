"""The server's side of SCRAM-SHA-256 and -512, and the stored credentials it checks against.  Pure: nonces and clocks
are passed in.

A stranger learns nothing from the exchange: for a user that does not exist the same steps are done with a salt that
stays the same and a credential that no password fits, and every refusal has the same words."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from tidelog.errors import IllegalSaslState, SaslAuthenticationFailed
from tidelog.net import scram
from tidelog.net.scram import HASHES, ITERATIONS_DEFAULT, SALT_BYTES, MalformedScram, ScramCredential

REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
"""Kafka's words; clients show them to people."""
MESSAGE_BYTES_MAX = 16_384
ITERATIONS_MAX = 16_384
"""Kafka takes no credential with more."""

_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^\x00,]+)*"
_FIRST = re.compile(
    rf"(?P<binding>[ny]|p=[A-Za-z0-9.-]+),(?:a=(?P<authzid>{_NAME}))?,"
    rf"(?P<bare>(?P<mandatory>m=[^\x00,]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"(?P<unproved>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class TokenLogin(NamedTuple):
    """A delegation token that may log in now: its owner's principal, and the credential of its HMAC."""

    owner: str
    credential: ScramCredential
    expires_ms: int


class ScramCredentials:
    """All users of one mechanism; unknown ones have a credential, too, which nothing fits.

    `secret` is the same on every broker and after a restart: so is the salt that an unknown user is shown."""

    def __init__(self, mechanism: str, users: Mapping[str, ScramCredential], secret: bytes) -> None:
        self._mechanism = mechanism
        self._users = users
        self._secret = secret
        # What the stored credentials look like, so that the false ones look no different.
        shapes = {(len(user.salt), user.iterations) for user in users.values()}
        self._shapes = sorted(shapes) or [(SALT_BYTES, ITERATIONS_DEFAULT)]

    def find(self, username: str) -> tuple[ScramCredential, bool]:
        """(the credential, False if it is a false one)"""
        false = self._false(username)
        credential = self._users.get(username)
        return (false, False) if credential is None else (credential, True)

    def _false(self, username: str) -> ScramCredential:
        seed = hmac.digest(self._secret, f"{self._mechanism}\0{username}".encode(), "sha512")
        salt_bytes, iterations = self._shapes[seed[0] % len(self._shapes)]
        salt = (seed[1:] * (salt_bytes // 63 + 1))[:salt_bytes]
        key = hashlib.new(HASHES[self._mechanism], seed).digest()
        return ScramCredential(salt, iterations, key, key)


class _State(Enum):
    FIRST = "client-first"
    FINAL = "client-final"
    COMPLETE = "complete"
    FAILED = "failed"


class ScramServer:
    """One exchange: `respond` twice, then `complete` is true and `username` says who it is."""

    def __init__(
        self,
        mechanism: str,
        credentials: ScramCredentials,
        nonce: str,
        find_token: Callable[[str], TokenLogin | None] = lambda token_id: None,
    ) -> None:
        """`nonce`: fresh for each exchange and not to be guessed."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credentials = credentials
        self._nonce = nonce
        self._find_token = find_token
        self._state = _State.FIRST
        self._credential = ScramCredential(b"", 0, b"", b"")
        self._known = False
        self._said = ""  # both first messages, as the proof covers them
        self._binding = ""
        self.username = ""
        """The user name, or the id of the token."""
        self.token: TokenLogin | None = None

    @property
    def complete(self) -> bool:
        return self._state is _State.COMPLETE

    def respond(self, message: bytes) -> bytes:
        """SaslAuthenticationFailed ends the exchange."""
        state, self._state = self._state, _State.FAILED
        if state not in (_State.FIRST, _State.FINAL):
            raise IllegalSaslState(f"the SCRAM exchange is {state.value}: begin another one")
        try:
            return self._first(message) if state is _State.FIRST else self._final(message)
        except MalformedScram:
            raise self._refused() from None

    def _first(self, message: bytes) -> bytes:
        parts = _matched(_FIRST, message)
        # Nothing here binds to a channel: a client that insists is refused, and so are extensions that it calls
        # mandatory.  'y' says that the client would bind if we could.
        if parts["binding"].startswith("p") or parts["mandatory"]:
            raise self._refused()
        self.username = scram.unescaped(parts["name"])
        if parts["authzid"] is not None and scram.unescaped(parts["authzid"]) != self.username:
            raise self._refused()
        self._credential, self._known = self._credentials.find(self.username)
        if _token(parts["extensions"]):
            self._known = False
            self.token = self._find_token(self.username)
            if self.token is not None:
                self._credential, self._known = self.token.credential, True
        self._nonce = parts["nonce"] + self._nonce
        salt = scram.encoded(self._credential.salt)
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._said = f"{parts['bare']},{answer}"
        self._binding = scram.encoded(f"{parts['binding']},{_authzid(parts['authzid'])},".encode())
        self._state = _State.FINAL
        return answer.encode()

    def _final(self, message: bytes) -> bytes:
        parts = _matched(_FINAL, message)
        proof = scram.decoded(parts["proof"])
        auth_message = f"{self._said},{parts['unproved']}".encode()
        signature = hmac.digest(self._credential.stored_key, auth_message, self._hash)
        if len(proof) != len(signature):
            raise self._refused()
        stored_key = hashlib.new(self._hash, scram.xor(proof, signature)).digest()
        proved = hmac.compare_digest(stored_key, self._credential.stored_key)
        same = hmac.compare_digest(parts["nonce"], self._nonce)
        bound = hmac.compare_digest(parts["channel"], self._binding)
        if not (proved and same and bound and self._known):
            raise self._refused()
        answer = hmac.digest(self._credential.server_key, auth_message, self._hash)
        self._state = _State.COMPLETE
        return f"v={scram.encoded(answer)}".encode()

    def _refused(self) -> SaslAuthenticationFailed:
        return SaslAuthenticationFailed(REFUSED.format(self._mechanism))


def _matched(pattern: re.Pattern[str], message: bytes) -> re.Match[str]:
    if len(message) > MESSAGE_BYTES_MAX:
        raise MalformedScram("the message is too long")
    try:
        match = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise MalformedScram("the message is not one of SCRAM")
    return match


def _token(extensions: str) -> bool:
    """`tokenauth=true`: the name is that of a delegation token."""
    return any(part.lower() == "tokenauth=true" for part in extensions.split(","))


def _authzid(name: str | None) -> str:
    return "" if name is None else f"a={name}"
