"""The log-in of the REST API: users of the brokers, with rights on the topic of settings."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from tests.conformance.secured import PLAIN_PASSWORD, SecuredBroker, acl
from tests.connect.conftest import NewWorker
from tests.connect.test_rest import lines
from tests.connect.workers import BROKER, TIDELOG, Worker

GROUP = "pipes"
PASSWORDS = {
    "worker": "works-here",
    "editor": "edits-here",
    "viewer": "views-here",
    "stranger": "is-not-here",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {**BROKER, "connection.failed.authentication.delay.ms": "0"}
    running = SecuredBroker(tmp_path_factory.mktemp("secured"), settings)
    running.start()
    with tidelog.Admin(bootstrap_servers=running.at("PLAIN")) as admin:
        admin.alter_user_scram_credentials(PASSWORDS, mechanism="SCRAM-SHA-512")
        admin.create_acls(
            [
                acl("User:worker", "all", "topic", "*"),
                acl("User:worker", "all", "group", "*"),
                acl("User:worker", "all", "transactional_id", "*"),
                acl("User:worker", "all", "cluster", "kafka-cluster"),
                acl("User:viewer", "read", "topic", f"{GROUP}-configs"),
                *(acl("User:editor", right, "topic", f"{GROUP}-configs") for right in ("read", "write")),
            ]
        )
    yield running
    running.stop()


def login_file(broker: SecuredBroker, folder: Path, user: str, password: str | None = None) -> str:
    file = folder / f"{user}.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username={user}\nsasl.password={password or PASSWORDS[user]}\n"
        f"ssl.ca.location={broker.home / 'ca.pem'}\n"
    )
    return str(file)


@pytest.fixture
def worker(broker: SecuredBroker, worker_of: NewWorker, tmp_path: Path) -> Worker:
    options = ("--command-config", login_file(broker, tmp_path, "worker"))
    return worker_of(broker.at("BOTH"), GROUP, *options, "--certificate", str(broker.home / "broker.pem"))


def ask(
    broker: SecuredBroker,
    worker: Worker,
    method: str,
    path: str,
    authorization: str | None,
    body: object = None,
) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(broker.home / "ca.pem"))
    connection = http.client.HTTPSConnection("127.0.0.1", worker.port, timeout=30, context=context)
    headers = {"Content-Type": "application/json"}
    if authorization is not None:
        headers["Authorization"] = authorization
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def basic(user: str, password: str | None = None) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password or PASSWORDS[user]}".encode()).decode()


def test_users_of_the_brokers_log_in_and_their_rights_on_the_topic_count(
    broker: SecuredBroker, worker: Worker, tmp_path: Path
) -> None:
    assert ask(broker, worker, "GET", "/health", None)[0] == 200
    connector = {"connector.class": "FileSource", "file": str(lines(tmp_path)), "topic": "t"}
    creation = {"name": "c", "config": connector}
    every_request = (
        ("GET", "/connectors", None),
        ("GET", "/", None),
        ("GET", "/connectors/none/config", None),
        ("GET", "/admin/loggers", None),
        ("POST", "/connectors", creation),
        ("PUT", "/admin/loggers/root", {"level": "INFO"}),
        ("DELETE", "/connectors/none", None),
    )
    wrong = (
        None,
        basic("editor", "wrong"),
        basic("nobody", "x"),
        "Basic !",
        "Basic " + "A" * 20_000,
        "Bearer x",
        "Digest x",
    )
    for method, path, body in every_request:
        assert ask(broker, worker, method, path, None, body)[0] == 401, path
    for authorization in wrong:
        status, text = ask(broker, worker, "POST", "/connectors", authorization, creation)
        assert status == 401, authorization
        assert "a login is needed" in text
    for user, reads, writes in (("stranger", 403, 403), ("viewer", 200, 403), ("editor", 200, 201)):
        assert ask(broker, worker, "GET", "/connectors", basic(user))[0] == reads, user
        assert ask(broker, worker, "POST", "/connectors", basic(user), creation)[0] == writes, user
    status, text = ask(broker, worker, "DELETE", "/connectors/c", basic("viewer"))
    assert status == 403
    assert f"it takes WRITE on the topic {GROUP}-configs" in text
    assert ask(broker, worker, "DELETE", "/connectors/c", basic("editor"))[0] == 204
    token = f"Bearer {broker.token('editor')}"
    assert ask(broker, worker, "GET", "/connectors", token) == (200, "[]")
    expired = f"Bearer {broker.token('editor', lifetime_s=-300)}"
    assert ask(broker, worker, "GET", "/connectors", expired)[0] == 401
    log = worker.log.read_text()
    assert "POST /connectors by editor at 127.0.0.1" in log
    assert "refused the login of 'nobody' at 127.0.0.1" in log
    assert not [secret for secret in (*PASSWORDS.values(), token[7:], PLAIN_PASSWORD) if secret in log]


def test_who_keeps_guessing_is_refused_without_a_look(broker: SecuredBroker, worker: Worker) -> None:
    for number in range(5):
        assert ask(broker, worker, "GET", "/connectors", basic("viewer", f"guess-{number}"))[0] == 401
    attempts = broker.log_text().count("viewer")
    assert ask(broker, worker, "GET", "/connectors", basic("viewer", "guess-6"))[0] == 401
    assert ask(broker, worker, "GET", "/connectors", basic("viewer"))[0] == 401  # for a minute
    assert broker.log_text().count("viewer") == attempts
    assert ask(broker, worker, "GET", "/connectors", basic("editor"))[0] == 200


def test_the_command_line_logs_in(broker: SecuredBroker, worker: Worker, tmp_path: Path) -> None:
    def run(user: str, *words: str) -> subprocess.CompletedProcess[str]:
        url = f"https://127.0.0.1:{worker.port}"
        login = ("--command-config", login_file(broker, tmp_path, user))
        return subprocess.run(
            [TIDELOG, "connect", *words, "--worker", url, *login], capture_output=True, text=True, timeout=60
        )

    settings = ("connector.class=FileSource", f"file={lines(tmp_path)}", "topic=t")
    refused = run("viewer", "create", "d", *settings)
    assert refused.returncode == 1
    assert "viewer may not do this" in refused.stderr
    assert run("editor", "create", "d", *settings).returncode == 0
    assert "d" in run("viewer", "list").stdout
    assert run("editor", "logs", "d").returncode == 0
    assert run("editor", "delete", "d").returncode == 0


def test_a_certificate_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for name, words in (("empty.pem", "is no PEM file"), ("none.pem", "no such file")):
        command = [TIDELOG, "connect", "worker", "--certificate", str(tmp_path / name)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1
        assert words in ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--listen", "0.0.0.0:1"), "--authentication none behind a proxy"),
        (("--authentication", "required"), "--command-config names no log-in"),
    ],
)
def test_a_worker_that_others_reach_does_not_start_without_a_log_in(
    options: tuple[str, ...], words: str
) -> None:
    ended = subprocess.run(
        [TIDELOG, "connect", "worker", *options], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    assert words in " ".join(ended.stderr.split())
