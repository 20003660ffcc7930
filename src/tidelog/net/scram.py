"""SCRAM (RFC 5802): what the client's and the server's side share.  Hashes, credentials, and the attributes of a
message.  Pure.

A credential proves a password without holding it: the server keeps the salted stored key and server key, and cannot
log in elsewhere with them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import unicodedata
from typing import NamedTuple

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISM_CODES = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The numbers of the mechanisms in DescribeUserScramCredentials and AlterUserScramCredentials."""
ITERATIONS_MIN = 4_096
ITERATIONS_DEFAULT = 8_192
NONCE_BYTES = 24
SALT_BYTES = 24


class MalformedScram(ValueError):
    """The message is not what RFC 5802 allows here."""


class ScramCredential(NamedTuple):
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Without the keys: credentials must not get into logs and error texts."""
        return f"ScramCredential(iterations={self.iterations})"

    @staticmethod
    def of_password(mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
        """Takes milliseconds, on purpose: not for the event loop."""
        salted = salted_password(HASHES[mechanism], password, salt, iterations)
        return ScramCredential.of_salted(mechanism, salted, salt, iterations)

    @staticmethod
    def of_salted(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
        """From what AlterUserScramCredentials carries."""
        name = HASHES[mechanism]
        stored_key = hashlib.new(name, client_key(name, salted)).digest()
        return ScramCredential(salt, iterations, stored_key, server_key(name, salted))


def prepared(text: str) -> str:
    """User name or password in the one form that both sides compute with."""
    return unicodedata.normalize("NFKC", text)


def salted_password(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(hash_name, prepared(password).encode(), salt, iterations)


def client_key(hash_name: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", hash_name)


def server_key(hash_name: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", hash_name)


def xor(first: bytes, second: bytes) -> bytes:
    return bytes(byte ^ other for byte, other in zip(first, second, strict=True))


def attributes(message: bytes) -> dict[str, str]:
    """`a=1,b=2` as a mapping; parts of another shape are left out."""
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise MalformedScram("the message is not text") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise MalformedScram("the message is not base64 where it should be") from None


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def escaped(name: str) -> str:
    """A user name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    parts = name.split("=")
    if any(part[:2] not in ("2C", "3D") for part in parts[1:]):
        raise MalformedScram("the user name has an '=' that is no escape")
    return parts[0] + "".join({"2C": ",", "3D": "="}[part[:2]] + part[2:] for part in parts[1:])
