"""`--command-config`: a properties file with the security settings of a client, under the names of Kafka's Java client or
of librdkafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidelog.aio import Security

_JAAS = "sasl.jaas.config"
_TRUST = ("ssl.truststore.location", "ssl.ca.location")
_CERTIFICATE = ("ssl.keystore.location", "ssl.certificate.location")
# A file for Java says of what kind its files are; ours are PEM, and a file of another kind is refused when it is read.
_KNOWN = {
    *("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", _JAAS),
    *_TRUST,
    *_CERTIFICATE,
    *("ssl.key.location", "ssl.key.password", "ssl.endpoint.identification.algorithm"),
    *("ssl.truststore.type", "ssl.keystore.type"),
}


def read_security(path: Path) -> Security | None:
    """None when the file asks for neither TLS nor a log-in; a click.BadParameter says what is wrong, never a password."""
    from tidelog.config.listener_security import PROTOCOLS
    from tidelog.config.properties import parse_properties
    from tidelog.errors import InvalidConfig

    try:
        settings = parse_properties(path.read_text(encoding="utf-8"))
        unknown = [name for name in settings if name.startswith(("ssl.", "sasl.")) and name not in _KNOWN]
        if unknown:
            raise InvalidConfig(f"{unknown[0]} is not a setting that the command line knows")
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise InvalidConfig(f"security.protocol must be one of {', '.join(PROTOCOLS)}")
        return _security(protocol, settings)
    except OSError as problem:
        raise click.BadParameter(f"{path}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise click.BadParameter(f"{path} is not UTF-8 text") from None
    except (InvalidConfig, ValueError) as problem:
        raise click.BadParameter(f"{path}: {problem}") from None


def _security(protocol: str, settings: dict[str, str]) -> Security | None:
    from tidelog.aio import Security
    from tidelog.config.jaas import parse_jaas

    if protocol == "PLAINTEXT":
        return None
    encrypts, logs_in = protocol.endswith("SSL"), protocol.startswith("SASL")
    username, password = settings.get("sasl.username"), settings.get("sasl.password")
    if logs_in and _JAAS in settings:
        entry = parse_jaas(settings[_JAAS], _JAAS)
        username, password = entry.username, entry.password
    certificate = _first(settings, _CERTIFICATE) if encrypts else None
    return Security(
        tls=encrypts,
        ca=_first(settings, _TRUST) if encrypts else None,
        certificate=certificate,
        key=settings.get("ssl.key.location") if encrypts else None,
        key_password=settings.get("ssl.key.password"),
        check_hostname=settings.get("ssl.endpoint.identification.algorithm", "https") != "",
        mechanism=settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")) if logs_in else None,
        username=username if logs_in else None,
        password=password if logs_in else None,
    )


def _first(settings: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((settings[name] for name in names if name in settings), None)
