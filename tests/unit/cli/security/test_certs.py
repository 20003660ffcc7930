"""`tidelog certs`: what is in the files, and who can read them."""

from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path

import pytest

pytest.importorskip("cryptography")
from cryptography import x509

from tests.unit.cli.commands import invoke


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificates(path.read_bytes())[0]


def handshake(folder: Path, host: str, client: str | None) -> None:
    """Raises ssl.SSLError when one end refuses the other."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "broker.pem")
    server.load_verify_locations(folder / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    mine = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if client is not None:
        mine.load_cert_chain(folder / f"{client}.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        mine.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass


def test_both_ends_trust_what_one_command_has_made(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    done = invoke("certs", str(folder), "--host", "broker.example", "--host", "10.0.0.1", "--client", "ann")
    assert done.exit_code == 0, done.stderr
    names = ["ca.pem", "ca.key", "broker.pem", "ann.pem"]
    assert done.stdout.split() == [str(folder / name) for name in names]
    handshake(folder, "broker.example", "ann")
    handshake(folder, "10.0.0.1", "broker")
    for host, client in (("other.example", "ann"), ("broker.example", None)):
        with pytest.raises(ssl.SSLError):
            handshake(folder, host, client)


def test_only_the_owner_reads_keys(tmp_path: Path) -> None:
    assert invoke("certs", str(tmp_path / "c"), "--client", "ann").exit_code == 0
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "c").iterdir()}
    assert modes.pop("ca.pem") & stat.S_IROTH
    assert modes == dict.fromkeys(("ca.key", "broker.pem", "ann.pem"), 0o600)


def test_the_authority_stays_when_certificates_are_added(tmp_path: Path) -> None:
    invoke("certs", str(tmp_path))
    before = (tmp_path / "ca.pem").read_bytes()
    done = invoke("certs", str(tmp_path), "--client", "ann", "--client", "bob", "--json")
    written = [Path(path).name for path in json.loads(done.stdout)["written"]]
    assert written == ["broker.pem", "ann.pem", "bob.pem"]
    assert (tmp_path / "ca.pem").read_bytes() == before
    authority = certificate(tmp_path / "ca.pem")
    for name in ("broker", "ann", "bob"):
        certificate(tmp_path / f"{name}.pem").verify_directly_issued_by(authority)
    handshake(tmp_path, "localhost", "bob")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--client", "../ann"), "cannot be the name"),
        (("--client", "ca"), "cannot be the name"),
        (("--client", "broker"), "same name"),
        (("--client", "a" * 70), "too long"),
    ],
)
def test_names_that_are_no_files_are_refused(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = invoke("certs", str(tmp_path / "c"), *words)
    assert done.exit_code == 1 and why in done.stderr


def test_an_authority_without_its_key_or_with_another_is_refused(tmp_path: Path) -> None:
    invoke("certs", str(tmp_path))
    (tmp_path / "ca.key").rename(tmp_path / "kept.key")
    done = invoke("certs", str(tmp_path))
    assert done.exit_code == 1 and "no key beside it" in done.stderr
    (tmp_path / "ca.key").write_bytes((tmp_path / "broker.pem").read_bytes())
    done = invoke("certs", str(tmp_path))
    assert done.exit_code == 1 and "not the key of" in done.stderr


def test_without_the_package_the_command_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    done = invoke("certs", str(tmp_path / "c"))
    assert done.exit_code == 1 and "pip install 'tidelog[security]'" in done.stderr
    assert not (tmp_path / "c").exists()
