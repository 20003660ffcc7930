"""`tidelog serve --secure`: certificates, users and settings of one broker that lets nobody in without a password.

Everything is in the folder `secure` of the first data directory, and is made at the first start.  The administrator's
password is stored nowhere: the metadata hold its salted keys."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tidelog.app.certificates import check_available, make_certificates, write_secret
from tidelog.config.first_users import FirstUser
from tidelog.config.properties import parse_properties
from tidelog.errors import InvalidConfig

FOLDER = "secure"
ADMIN, BROKER = "admin", "broker"
MECHANISM = "SCRAM-SHA-512"
LOCAL = ("localhost", "127.0.0.1", "::1")
_BROKER_PASSWORD, _TOKEN_KEY = "broker.password", "delegation.token.secret.key"


class SecureStart(NamedTuple):
    settings: dict[str, str]
    users: tuple[FirstUser, ...]
    """To be added to the metadata unless they are there: the broker's own, and the administrator."""
    password: str
    """The administrator's password, if the administrator is new."""
    ca: Path

    def client_settings(self) -> str:
        """A file for --command-config, and for librdkafka by the same names."""
        lines = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": ADMIN,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.ca),
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


def set_up(data: Path, hosts: Sequence[str]) -> SecureStart:
    """`hosts`: names and addresses of the broker, besides those of this machine's loopback."""
    check_available()
    folder = (data / FOLDER).absolute()
    kept = folder / "secrets.properties"
    if not kept.exists():
        # The certificates first: the file says that everything is there.
        make_certificates(folder, [*hosts, *LOCAL])
        made = {_BROKER_PASSWORD: secrets.token_urlsafe(32), _TOKEN_KEY: secrets.token_urlsafe(32)}
        write_secret(kept, "".join(f"{name}={value}\n" for name, value in made.items()).encode())
    kept_values = parse_properties(kept.read_text())
    if not {_BROKER_PASSWORD, _TOKEN_KEY} <= kept_values.keys():
        raise InvalidConfig(f"{kept} is not what --secure wrote: restore the file from a backup")
    password = secrets.token_urlsafe(18)
    login = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{BROKER}" password="{kept_values[_BROKER_PASSWORD]}";'
    )
    settings = {
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": login,
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "authorizer.class.name": "tidelog",
        "super.users": f"User:{ADMIN};User:{BROKER}",
        "delegation.token.secret.key": kept_values[_TOKEN_KEY],
        "tidelog.http.ssl": "true",
    }
    users = (
        FirstUser(MECHANISM, BROKER, kept_values[_BROKER_PASSWORD]),
        FirstUser(MECHANISM, ADMIN, password),
    )
    return SecureStart(settings, users, password, folder / "ca.pem")
