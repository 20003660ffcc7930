"""SCRAM (RFC 5802), the client's side: proves that it knows the password, and that the server does.  Pure: the
nonce is passed in."""

from __future__ import annotations

import hashlib
import hmac

from tidelog.errors import SaslAuthenticationFailed
from tidelog.net import scram
from tidelog.net.scram import HASHES, ITERATIONS_MIN, MalformedScram

__all__ = ["HASHES", "ITERATIONS_MAX", "ITERATIONS_MIN", "ScramClient"]

# Brokers ask for 4,096; a number from a hostile one must not keep us busy for minutes.
ITERATIONS_MAX = 1_000_000
_NO_BINDING = "n,,"


class ScramClient:
    """`first`, then `final` with the server's first message, then `check` with its final message."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        self._hash = hash_name
        self._password = password
        self._nonce = nonce
        name = scram.escaped(scram.prepared(username))
        self._bare = f"n={name},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return (_NO_BINDING + self._bare).encode()

    def final(self, server_first: bytes) -> bytes:
        fields = _fields(server_first)
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if "e" in fields or not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise _refused(fields.get("e", "the server's nonce is not an answer to ours"))
        if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise _refused(
                f"the server requires {iterations!r} iterations: this client supports {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        salt = _decoded(fields.get("s", ""))
        salted = scram.salted_password(self._hash, self._password, salt, int(iterations))
        client_key = scram.client_key(self._hash, salted)
        binding = scram.encoded(_NO_BINDING.encode())
        without_proof = f"c={binding},r={nonce}"
        message = f"{self._bare},{server_first.decode()},{without_proof}".encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), message)
        proof = scram.xor(client_key, signature)
        self._server_signature = self._hmac(scram.server_key(self._hash, salted), message)
        return f"{without_proof},p={scram.encoded(proof)}".encode()

    def check(self, server_final: bytes) -> None:
        """Raises unless the server knows the password too."""
        fields = _fields(server_final)
        if "e" in fields:
            raise _refused(fields["e"])
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._server_signature):
            raise _refused("the server does not know the password: is it the right one?")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    try:
        return scram.attributes(message)
    except MalformedScram:
        raise _refused("the server's message is not text") from None


def _decoded(text: str) -> bytes:
    try:
        return scram.decoded(text)
    except MalformedScram:
        raise _refused("the server's message is not base64 where it should be") from None


def _refused(reason: str) -> SaslAuthenticationFailed:
    return SaslAuthenticationFailed(f"SCRAM: {reason}")
