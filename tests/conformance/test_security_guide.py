"""docs/guide/security.md as it is written: its files, its commands, in order, but for the ports."""

from __future__ import annotations

import base64
import http.client
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tests.conformance.certificates import make_certificates
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.oauth_broker import OauthBroker, PlainBrowser
from tests.conformance.process import free_port, wait_until
from tests.conformance.token_provider import TokenProvider
from tidelog import Consumer, Security, TopicPartition, errors
from tidelog.config import BrokerConfig
from tidelog.config.properties import parse_properties

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "security.md"
OIDC_BLOCK = re.compile(r"<!-- oidc (file|run)(?: ([^\n]*?))? -->\n```\w*\n(.*?)```", re.DOTALL)
BLOCK = re.compile(r"<!-- (file|run)(?: ([^\n]*?))? -->\n```\w*\n(.*?)```", re.DOTALL)
PORTS = ("9092", "9093", "9094", "9095", "9096", "9097", "8090", "8091", "8092", "2379", "9098", "8093")

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="the guide is about tidelog serve")


def steps() -> list[tuple[str, str, str]]:
    """(file or run, the file's name, the content) with ports that are free here."""
    text = GUIDE.read_text()
    for port in PORTS:
        text = re.sub(rf"\b{port}\b", str(free_port()), text)
    return BLOCK.findall(text)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    yield tmp_path


def start_etcd(home: Path, address: str, started: ExitStack) -> None:
    program = shutil.which("etcd")
    assert program is not None, "etcd is missing: tools/install-test-tools installs it"
    peer = f"http://127.0.0.1:{free_port()}"
    options = {
        "data-dir": str(home / "etcd"),
        "listen-client-urls": f"http://{address}",
        "advertise-client-urls": f"http://{address}",
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "heartbeat-interval": "100",
        "election-timeout": "500",
    }
    start([program, *(f"--{name}={value}" for name, value in options.items())], home / "etcd.log", started)


def start(command: list[str], log: Path, started: ExitStack) -> None:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def end() -> None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    started.callback(end)


def run(script: str) -> str:
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    return done.stdout


def test_the_cluster_of_the_guide_is_made_by_its_commands(home: Path) -> None:
    shown: list[str] = []
    logs: list[Path] = []
    with ExitStack() as started:
        for kind, name, content in steps():
            if kind == "file":
                (home / name).write_text(content)
            elif "tidelog serve" in content:
                commands = content.replace("\\\n", " ").splitlines()
                run("\n".join(line for line in commands if "tidelog serve" not in line))
                start_etcd(home, re.findall(r"etcd://(\S+)", content)[0], started)
                for number, line in enumerate((one for one in commands if "tidelog serve" in one), 1):
                    logs.append(home / f"broker{number}.log")
                    start(shlex.split(line.rstrip("& ")), logs[-1], started)
                wait_until(
                    lambda: all(b"ready kafka=" in one.read_bytes() for one in logs), 60, "all are ready"
                )
            else:
                shown.append(run(content))
        texts = [one.read_text() for one in logs]
    assert len(logs) == 3 and not any("Traceback" in text or "change-me" in text for text in texts)
    assert not any("CLUSTER_ACTION" in text or "no authentication" in text for text in texts)
    assert "created orders" in shown[1] and "hello" in shown[2]


def test_users_of_an_identity_provider_as_the_guide_says(home: Path) -> None:
    ports = {"9098": str(free_port()), "8093": str(free_port())}
    make_certificates(home)
    provider = TokenProvider(home)
    provider.audience = "kafka"
    provider.clients |= {"operator": "of-the-operator", "console": "of-the-console"}
    provider.redirect_urls.append(f"https://127.0.0.1:{ports['8093']}/console/login/oidc/callback")
    text = GUIDE.read_text().replace("https://login.example/realms/kafka", provider.issuer)
    for written, port in ports.items():
        text = text.replace(f":{written}", f":{port}")
    log = home / "broker.log"
    with ExitStack() as started:
        provider.start()
        started.callback(provider.stop)
        for kind, name, content in OIDC_BLOCK.findall(text):
            if kind == "file":
                (home / name).write_text(content)
            elif "tidelog serve" in content:
                certs, serve = content.strip().splitlines()
                run(certs)
                shutil.copy(home / "ca.pem", home / "certs" / "provider.pem")
                start(shlex.split(serve.rstrip("& ")), log, started)
                wait_until(lambda: b"ready kafka=" in log.read_bytes(), 60, "the broker is ready")
            else:
                assert "created orders" in run(content)
        console = OauthBroker(home / "unused", provider, {})
        console.http, console.authority = f"127.0.0.1:{ports['8093']}", home / "certs" / "ca.pem"
        ann, bob = PlainBrowser(console), PlainBrowser(console)
        assert "Log in with Example" in ann.get("/console/login").text
        for browser, user in ((ann, "ann"), (bob, "bob")):
            assert browser.get(browser.at_provider(user)).status == 303
        assert ann.get("/console/topics/orders/messages").status == 200
        assert bob.get("/console/topics/orders/messages").status == 403
    said = log.read_text()
    assert not any(
        word in said for word in ("Traceback", "between-brokers", "of-the-console", "no authentication")
    )


def test_the_settings_of_the_guide_are_settings(home: Path) -> None:
    (name, content), *_ = [(name, text) for kind, name, text in steps() if kind == "file"]
    assert name == "server.properties"
    config = BrokerConfig.of(
        {"listeners": "CLIENTS://127.0.0.1:1,MUTUAL://127.0.0.1:2", **parse_properties(content)}
    )
    assert config.inter_broker_listener == "CLIENTS" and config.authorizes


def test_secure_makes_what_it_needs_once(home: Path) -> None:
    port, http_port = free_port(), free_port()
    command = ["tidelog", "serve", "--secure", "--listen", f"127.0.0.1:{port}"]
    command += ["--http", f"127.0.0.1:{http_port}"]
    log = home / "broker.log"
    told: list[str] = []
    for _ in range(2):
        with ExitStack() as started:
            start(command, log, started)
            wait_until(lambda: b"ready kafka=" in log.read_bytes(), 60, "the broker is ready")
            time.sleep(0.2)
            told.append(log.read_text())
            if len(told) == 1:
                lines = [one for one in told[0].splitlines() if re.match(r"(security|sasl|ssl)\.", one)]
                (home / "admin.properties").write_text("\n".join(lines))
                (home / "alice.txt").write_text("secret")
            bootstrap = f"export TIDELOG_BOOTSTRAP=127.0.0.1:{port}\n"
            if len(told) == 1:
                (commands,) = re.findall(r"```\n(export TIDELOG_COMMAND.*?)```", GUIDE.read_text(), re.DOTALL)
                run(bootstrap + commands + "echo hello | tidelog produce orders\n")
            login = "--command-config admin.properties"
            assert run(f"{bootstrap}tidelog consume orders --from beginning {login}") == "hello\n"
            refused = subprocess.run(
                ["tidelog", "topics", "list", "--timeout", "3", "--bootstrap", f"127.0.0.1:{port}"],
                capture_output=True,
            )
            assert refused.returncode == 1, "without a log-in"
            alice = Security(
                ca=home / "data/secure/ca.pem", mechanism="SCRAM-SHA-512", username="alice", password="secret"
            )
            may_not_read(f"127.0.0.1:{port}", alice)
            assert over_https(home, http_port, "alice:secret") == 200
            assert over_https(home, http_port, "alice:wrong") == 401
    assert "sasl.password=" in told[0] and "sasl.password=" not in told[1]
    modes = {path.name: path.stat().st_mode & 0o777 for path in (home / "data/secure").iterdir()}
    del modes["ca.pem"]
    assert set(modes.values()) == {0o600}


def over_https(home: Path, port: int, login: str) -> int:
    """The status of an answer of the HTTP port, which has the certificate of the Kafka listener."""
    context = ssl.create_default_context(cafile=str(home / "data/secure/ca.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    try:
        authorization = base64.b64encode(login.encode()).decode()
        connection.request("GET", "/v3/clusters", headers={"Authorization": f"Basic {authorization}"})
        return connection.getresponse().status
    finally:
        connection.close()


def may_not_read(bootstrap: str, security: Security) -> None:
    """A producer, who may see the topic."""
    with Consumer(bootstrap_servers=bootstrap, security=security, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        with pytest.raises(errors.TopicAuthorizationFailed):
            for _ in range(20):
                consumer.poll(0.5)
