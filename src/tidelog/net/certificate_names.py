"""The names in a broker's certificate, and whether a new certificate may take the place of the one in use.

`ssl.allow.dn.changes` and `ssl.allow.san.changes` say which names may change while a broker runs: a file that was put in
the wrong place does not turn a broker into another one."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidelog.errors import InvalidConfig


class CertificateNames(NamedTuple):
    distinguished_name: str
    alternative_names: frozenset[str]


class AllowedChanges(Protocol):
    @property
    def allow_dn_changes(self) -> bool: ...
    @property
    def allow_san_changes(self) -> bool: ...


def certificate_names(pem: bytes) -> CertificateNames | None:
    """Of the first certificate; None where the package that reads certificates is not installed."""
    try:
        from cryptography import x509
    except ImportError:
        return None
    try:
        certificate = x509.load_pem_x509_certificates(pem)[0]
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return CertificateNames(certificate.subject.rfc4514_string(), frozenset())
    except (ValueError, x509.DuplicateExtension):
        return None
    return CertificateNames(
        certificate.subject.rfc4514_string(),
        frozenset(f"{type(name).__name__}:{name.value}" for name in names),
    )


def check_change(
    before: CertificateNames | None, after: CertificateNames | None, allowed: AllowedChanges
) -> None:
    """InvalidConfig unless a certificate with the names `after` may take the place of one with the names `before`."""
    if before is None or after is None:
        return
    if before.distinguished_name != after.distinguished_name and not allowed.allow_dn_changes:
        raise InvalidConfig(
            f"the new certificate is of {after.distinguished_name!r}, and the one in use of "
            f"{before.distinguished_name!r}: set ssl.allow.dn.changes=true to take it, or restart the broker"
        )
    missing = sorted(before.alternative_names - after.alternative_names)
    if missing and not allowed.allow_san_changes:
        raise InvalidConfig(
            f"the new certificate lacks {', '.join(missing)}, which the one in use has: set ssl.allow.san.changes=true to "
            "take it, or restart the broker"
        )
