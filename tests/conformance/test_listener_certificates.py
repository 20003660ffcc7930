"""Certificates and trust of a running broker's doors change: by a new file, and by settings of one listener."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tests.conformance.certificates import make_certificates
from tests.conformance.conftest import ON_KAFKA, SETTINGS
from tests.conformance.process import free_port
from tests.conformance.test_http_tls import TlsBroker
from tidelog import Admin, ConfigEntry, ConfigResource, errors
from tidelog.app.certificates import make_certificates as make_others

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="the broker's settings are those of tidelog serve")

NAME = "listener.name.sec.ssl.keystore."
SECONDS = 30


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


def made(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir(exist_ok=True)
    make_certificates(folder)
    return folder


@pytest.fixture
def broker(certificates: Path, tmp_path: Path) -> Iterator[TlsBroker]:
    plain, secure = free_port(), free_port()
    first = made(certificates, "first")
    (tmp_path / "ca.pem").write_bytes((first / "ca.pem").read_bytes())
    settings = SETTINGS | {
        "listeners": f"PLAIN://127.0.0.1:{plain},SEC://127.0.0.1:{secure}",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SEC:SSL",
        "inter.broker.listener.name": "PLAIN",
        "ssl.keystore.location": str(first / "broker.pem"),
        "listener.name.sec.ssl.key.password": "not-needed-yet",
        "listener.name.http.ssl.client.auth": "required",
        "listener.name.http.ssl.truststore.location": str(tmp_path / "ca.pem"),
        "tidelog.http.ssl": "true",
    }
    running = TlsBroker(tmp_path / "broker", settings)
    running.port, running.secure = plain, secure  # type: ignore[attr-defined]
    running.start()
    yield running
    running.stop()


def shown(port: int, folder: Path) -> bytes:
    """The certificate on this port; SSLError if the folder's authority did not sign it."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    with (
        socket.create_connection(("127.0.0.1", port), 30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as link,
    ):
        return link.getpeercert(True) or b""


def soon(check: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            check()
            return
        except (ssl.SSLError, ConnectionResetError):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def alter(admin: Admin, settings: dict[str, str | None], node: str = "1") -> None:
    admin.alter_configs({ConfigResource("broker", node): settings})


def test_a_listener_takes_a_new_certificate_from_its_file(broker: TlsBroker, certificates: Path) -> None:
    port, folder = broker.secure, certificates / "first"  # type: ignore[attr-defined]
    before = shown(port, folder)
    make_certificates(folder)
    soon(lambda: shown(port, folder))
    assert shown(port, folder) != before


def test_settings_of_a_listener_change_while_the_broker_runs(broker: TlsBroker, certificates: Path) -> None:
    port, second = broker.secure, made(certificates, "second")  # type: ignore[attr-defined]
    location = f"{NAME}location"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        shown(port, certificates / "first")
        alter(admin, {location: str(second / "broker.pem"), f"{NAME}password": "hidden-in-answers"})
        soon(lambda: shown(port, second))
        resource = ConfigResource("broker", "1")
        entries: dict[str, ConfigEntry] = {
            entry.name: entry for entry in admin.describe_configs([resource])[resource]
        }
        assert entries[location].value == str(second / "broker.pem")
        assert entries["ssl.keystore.location"].value == str(certificates / "first" / "broker.pem")
        for name in (f"{NAME}password", "listener.name.sec.ssl.key.password"):
            assert entries[name].value is None and entries[name].sensitive
        # What cannot be loaded is refused, and never in use.
        for wrong in ("nowhere.pem", "ca.pem"):
            with pytest.raises(errors.InvalidRequest):
                alter(admin, {location: str(second / wrong)})
        make_others(certificates / "other", ["127.0.0.1"], brokers=("somebody-else",))
        with pytest.raises(errors.InvalidRequest, match=r"ssl\.allow\.dn\.changes"):
            alter(admin, {location: str(certificates / "other" / "somebody-else.pem")})
        with pytest.raises(errors.InvalidRequest, match="name a broker"):
            alter(admin, {location: str(second / "broker.pem")}, "")
        with pytest.raises(errors.InvalidRequest, match="no listener ELSE"):
            alter(admin, {"listener.name.else.ssl.keystore.location": "x"})
        with pytest.raises(errors.InvalidConfig, match="unknown setting"):
            alter(admin, {"listener.name.sec.log.dirs": "x"})
        assert shown(port, second)
        alter(admin, {location: None})
        soon(lambda: shown(port, certificates / "first"))


def test_http_trusts_other_clients_after_a_swap(
    broker: TlsBroker, certificates: Path, tmp_path: Path
) -> None:
    second = made(certificates, "third")
    first = certificates / "first"
    host, _, port = broker.http.rpartition(":")

    def status(client: Path) -> bytes:
        context = ssl.create_default_context(cafile=str(first / "ca.pem"))
        context.load_cert_chain(client / "client.pem", client / "client.key")
        with (
            socket.create_connection((host, int(port)), 30) as plain,
            context.wrap_socket(plain, server_hostname=host) as link,
        ):
            link.sendall(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = link.recv(100)
            if not answer:
                raise ConnectionResetError
            return answer

    assert b" 200 " in status(first)
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        status(second)
    (tmp_path / "new").write_bytes((second / "ca.pem").read_bytes())
    (tmp_path / "new").rename(tmp_path / "ca.pem")
    soon(lambda: status(second))
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        status(first)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl s_client")
def test_renegotiation_is_refused(broker: TlsBroker) -> None:
    address = f"127.0.0.1:{broker.secure}"  # type: ignore[attr-defined]
    done = subprocess.run(
        ["openssl", "s_client", "-tls1_2", "-connect", address], input=b"R\n", capture_output=True, timeout=60
    )
    assert (
        b"Secure Renegotiation IS supported" in done.stdout and b"RENEGOTIATING" in done.stderr + done.stdout
    )
    assert b"no renegotiation" in done.stderr
