"""SCRAM (RFC 5802), the client's side: proves that it knows the password, and that the server does.  Pure: the
nonce is passed in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import unicodedata

from tidelog.errors import SaslAuthenticationFailed

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# Brokers ask for 4,096; a number from a hostile one must not keep us busy for minutes.
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 1_000_000
_NO_BINDING = "n,,"


class ScramClient:
    """`first`, then `final` with the server's first message, then `check` with its final message."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        self._hash = hash_name
        self._password = unicodedata.normalize("NFKC", password).encode()
        self._nonce = nonce
        name = unicodedata.normalize("NFKC", username).replace("=", "=3D").replace(",", "=2C")
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
                f"the server asks for {iterations!r} iterations: {ITERATIONS_MIN} to {ITERATIONS_MAX} are done"
            )
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._password, _decoded(fields.get("s", "")), int(iterations)
        )
        client_key = self._hmac(salted, b"Client Key")
        binding = base64.b64encode(_NO_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        message = f"{self._bare},{server_first.decode()},{without_proof}".encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), message)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

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
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise _refused("the server's message is not text") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _refused("the server's message is not base64 where it should be") from None


def _refused(reason: str) -> SaslAuthenticationFailed:
    return SaslAuthenticationFailed(f"SCRAM: {reason}")
