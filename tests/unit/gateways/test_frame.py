"""What every HTTP request passes: names and origins, the bound on bodies, request ids, errors in words."""

from __future__ import annotations

import logging

import pytest
from starlette.types import ASGIApp

from tests.unit.gateways.around import asked, surroundings
from tidelog.gateways.http import app as http
from tidelog.gateways.http.table import GATEWAYS, Gateway


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> ASGIApp:
    return make(monkeypatch)


def make(monkeypatch: pytest.MonkeyPatch, given: dict[str, str] | None = None) -> ASGIApp:
    table = (*GATEWAYS, Gateway("tests.unit.gateways.example", ("/example",)))
    monkeypatch.setattr(http, "GATEWAYS", table)
    return http.application(surroundings(given))


def test_an_unknown_path_is_told_in_json(app: ASGIApp) -> None:
    for path in ("/nothing", "/example/nothing", "/examples"):
        answer = asked(app, "GET", path)
        assert answer.status == 404
        assert answer.json == {"error_code": 404, "message": f"there is nothing at {path}"}


def test_a_wrong_method_is_told_with_those_that_work(app: ASGIApp) -> None:
    answer = asked(app, "DELETE", "/example/taken")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json["message"] == "DELETE is not possible at /example/taken"


def test_a_gateways_own_code_is_passed_on(app: ASGIApp) -> None:
    answer = asked(app, "GET", "/example/refuse")
    assert (answer.status, answer.json) == (404, {"error_code": 40401, "message": "there is no subject 'x'"})


def test_what_may_work_later_is_503(app: ASGIApp) -> None:
    answer = asked(app, "GET", "/example/later")
    assert (answer.status, answer.json["message"]) == (503, "nobody leads it now")


def test_a_crash_is_a_500_and_one_log_line(app: ASGIApp, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        answer = asked(app, "GET", "/example/crash", {"x-request-id": "abc-1"})
    assert answer.status == 500 and "abc-1" in answer.json["message"]
    (line,) = caplog.records
    assert line.getMessage() == "GET /example/crash failed" and line.exc_info is not None


def test_a_request_id_comes_back_or_is_made(app: ASGIApp) -> None:
    assert asked(app, "GET", "/nothing", {"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    bad = asked(app, "GET", "/nothing", {"x-request-id": "a\tb"}).headers["x-request-id"]
    assert len(bad) == 32


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_has_a_bound(monkeypatch: pytest.MonkeyPatch, announced: bool) -> None:
    app = make(monkeypatch, {"tidelog.http.body.bytes.max": "1024"})
    assert asked(app, "POST", "/example/taken", {}, [b"x" * 1000]).json == {"bytes": 1000}
    headers = {"content-length": "1025"} if announced else {}
    answer = asked(app, "POST", "/example/taken", headers, [b"x" * 512, b"x" * 513])
    assert answer.status == 413
    assert "tidelog.http.body.bytes.max is 1024" in answer.json["message"]
    streamed = asked(app, "POST", "/example/counted", headers, [b"x" * 512, b"x" * 513])
    assert streamed.json == {"bytes": 1025}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8090", 200),
        ("[::1]:8090", 200),
        ("192.168.0.7", 200),
        ("localhost:8090", 200),
        ("LocalHost", 200),
        ("tidelog.localhost:8090", 200),
        ("Broker1.Example:8090", 200),
        ("queue.example", 200),
        ("evil.example:8090", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_only_the_brokers_own_names_are_answered(
    monkeypatch: pytest.MonkeyPatch, host: str, status: int
) -> None:
    app = make(monkeypatch, {"tidelog.http.hosts": "queue.example"})
    answer = asked(app, "GET", "/health/live", {"host": host})
    assert answer.status == status
    assert status == 200 or "tidelog.http.hosts" in answer.json["message"]


def test_any_name_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make(monkeypatch, {"tidelog.http.hosts": "*"})
    assert asked(app, "GET", "/health/live", {"host": "evil.example"}).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1:8090"}, 200),
        ({"origin": "http://127.0.0.1:8091"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_a_page_of_another_site_cannot_write(app: ASGIApp, headers: dict[str, str], status: int) -> None:
    assert asked(app, "POST", "/example/taken", headers, [b"x"]).status == status


def test_no_page_of_another_site_is_told_that_it_may_read(app: ASGIApp) -> None:
    answer = asked(app, "GET", "/health/live", {"origin": "http://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_health_says_why_not() -> None:
    app = http.application(surroundings(reason="no log directory works: /data"))
    assert asked(app, "GET", "/health/live").json == {"status": "live"}
    answer = asked(app, "GET", "/health/ready")
    assert (answer.status, answer.json["reason"]) == (503, "no log directory works: /data")
