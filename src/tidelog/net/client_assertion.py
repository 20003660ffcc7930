"""The JSON Web Token with which a client proves to a token endpoint who it is (RFC 7523): read from a file that something
else renews, or made of claims and signed with a key of RSA or of the curve P-256.

Claims and header fields come from a template first, then from settings, then from the clock."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidelog.config.oauth import ClientAssertion, ProviderConnection
from tidelog.extras import need
from tidelog.net.provider_request import ProviderFailed, ask_provider

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_COORDINATE_BYTES = 32


def assertion_of(settings: ClientAssertion, now_s: float, id: str) -> str:
    """`id`: for the claim jti, never the same twice.  ProviderFailed when a file cannot be used."""
    if settings.file is not None:
        text = _text(settings.file).strip()
        if not text:
            raise ProviderFailed(f"{settings.file} has no assertion in it")
        return text
    assert settings.private_key_file is not None
    header, claims = _template(settings.template_file)
    header |= {"alg": settings.algorithm, "typ": "JWT"}
    named = {"aud": settings.audience, "iss": settings.issuer, "sub": settings.subject}
    claims |= {name: text for name, text in named.items() if text is not None}
    claims |= {
        "iat": int(now_s),
        "exp": int(now_s) + settings.life_s,
        "nbf": int(now_s) - settings.not_before_s,
    }
    if settings.has_id:
        claims["jti"] = id
    signed = f"{_encoded(_json(header))}.{_encoded(_json(claims))}"
    return f"{signed}.{_encoded(_signature(settings, signed.encode()))}"


def _template(path: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(fields of the header, claims)"""
    if path is None:
        return {}, {}
    try:
        content = json.loads(_text(path))
    except (ValueError, RecursionError):
        content = None
    fields = content if isinstance(content, dict) else {"header": None}
    header, claims = fields.get("header", {}), fields.get("payload", {})
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise ProviderFailed(f'{path} is no template: it must be JSON as {{"header": {{}}, "payload": {{}}}}')
    return header, claims


def _signature(settings: ClientAssertion, data: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    key = _private_key(settings)
    if settings.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    if (
        settings.algorithm == "ES256"
        and isinstance(key, ec.EllipticCurvePrivateKey)
        and isinstance(key.curve, ec.SECP256R1)
    ):
        numbers = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(_COORDINATE_BYTES, "big") for number in numbers)
    needed = "of RSA" if settings.algorithm == "RS256" else "of the curve P-256"
    raise ProviderFailed(
        f"{settings.private_key_file} does not fit the algorithm {settings.algorithm}, which needs a key {needed}"
    )


def _private_key(settings: ClientAssertion) -> PrivateKeyTypes:
    need("cryptography", "OAuth client assertions")
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    assert settings.private_key_file is not None
    pem = _text(settings.private_key_file).encode()
    passphrase = None if settings.passphrase is None else settings.passphrase.encode()
    try:
        return load_pem_private_key(pem, passphrase)
    except (ValueError, TypeError):
        raise ProviderFailed(
            f"{settings.private_key_file} is no private key in PEM, or needs another "
            "sasl.oauthbearer.assertion.private.key.passphrase"
        ) from None


def _text(path: str) -> str:
    try:
        return ask_provider(f"file:{quote(path)}", ProviderConnection()).decode()
    except UnicodeDecodeError:
        raise ProviderFailed(f"{path} is not UTF-8 text") from None


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
