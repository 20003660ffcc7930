"""The console's log-in through an OpenID Connect provider: the whole way, and every step that somebody could bend."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("cryptography")

from tests.conformance.certificates import make_certificates
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.oauth_broker import OauthBroker, PlainBrowser
from tests.conformance.secured import acl
from tests.conformance.token_provider import CLIENT_SECRET, TokenProvider
from tidelog import Admin, NewTopic

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no console")


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenProvider]:
    folder = tmp_path_factory.mktemp("provider")
    make_certificates(folder)
    running = TokenProvider(folder)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def broker(provider: TokenProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OauthBroker]:
    running = OauthBroker(tmp_path_factory.mktemp("oidc"), provider, {})
    running.start()
    with Admin(bootstrap_servers=running.bootstrap, security=running.security("admin")) as admin:
        admin.create_topics([NewTopic("of-staff", partitions=1), NewTopic("of-ann", partitions=1)])
        admin.create_acls(
            [
                acl("Group:staff", "describe", "topic", "of-staff"),
                acl("User:ann", "describe", "topic", "of-ann"),
            ]
        )
    yield running
    text = (running.home / "broker.log").read_text(errors="replace")
    assert "Traceback" not in text and CLIENT_SECRET not in text, running.log_tail()
    running.stop()


@pytest.fixture
def browser(broker: OauthBroker, provider: TokenProvider) -> PlainBrowser:
    provider.changes.clear()
    return PlainBrowser(broker)


def test_whoever_logs_in_at_the_provider_sees_what_the_groups_may_see(browser: PlainBrowser) -> None:
    asked = browser.get("/console/topics")
    page = browser.get(asked.location).text
    assert 'href="/console/login/oidc?next=%2Fconsole%2Ftopics"' in page and "Log in with the tests" in page
    back = browser.at_provider("ann", "/console/topics")
    opened = browser.get(back)
    assert (opened.status, opened.location) == (303, "/console/topics")
    topics = browser.get("/console/topics").text
    assert "of-staff" in topics and "of-ann" in topics and "Logged in as ann" in topics
    other = PlainBrowser(browser.broker)
    other.get(other.at_provider("bob"))
    seen = other.get("/console/topics").text
    assert "Logged in as bob" in seen and "of-staff" not in seen and "of-ann" not in seen


def test_the_cookies_are_bound_and_short(browser: PlainBrowser) -> None:
    begun = browser.get("/console/login/oidc")
    value, attributes = begun.cookies()["tidelog_oidc"]
    for word in ("httponly", "samesite=lax", "secure", "max-age=600", "path=/console/login/oidc"):
        assert word in attributes
    query = {name: one[0] for name, one in parse_qs(urlsplit(begun.location).query).items()}
    state, nonce, verifier, *_ = json.loads(base64.urlsafe_b64decode(value.partition(".")[0] + "=="))
    assert (query["state"], query["nonce"]) == (state, nonce) and verifier not in begun.location
    opened = browser.get(browser.at_provider("ann"))
    assert "secure" in opened.cookies()["tidelog_session"][1] and "tidelog_oidc" not in browser.cookies


def test_logging_out_ends_the_session(browser: PlainBrowser) -> None:
    browser.get(browser.at_provider("ann"))
    token = re.search(r'name="token" value="([^"]+)"', browser.get("/console/topics").text)
    assert token is not None
    kept = dict(browser.cookies)
    assert browser.post("/console/logout", {"token": token[1]}).location == "/console/login"
    browser.cookies = kept
    assert browser.get("/console/topics").status == 303


def refused(browser: PlainBrowser, back: str, status: int = 403) -> str:
    answer = browser.get(back)
    assert answer.status == status and "tidelog_session" not in browser.cookies, answer
    return answer.text


def test_an_answer_counts_once_and_only_in_the_browser_that_asked(browser: PlainBrowser) -> None:
    back = browser.at_provider("ann")
    stranger = PlainBrowser(browser.broker)
    assert "not begun in this browser" in refused(stranger, back)
    stranger.at_provider("bob")  # a log-in of its own: the state is another
    assert "not begun in this browser" in refused(stranger, back)
    kept = dict(browser.cookies)
    assert browser.get(back).status == 303
    browser.cookies = kept
    refused(browser, back, 503)  # the provider takes a code once


@pytest.mark.parametrize("change", ["signature", "content", "nothing", "garbage"])
def test_a_cookie_that_was_changed_is_none(browser: PlainBrowser, change: str) -> None:
    back = browser.at_provider("ann")
    content, _, signature = browser.cookies["tidelog_oidc"].partition(".")
    other = PlainBrowser(browser.broker)
    other.at_provider("ann")
    browser.cookies["tidelog_oidc"] = {
        "signature": f"{content}.{'A' * len(signature)}",
        "content": f"{other.cookies['tidelog_oidc'].partition('.')[0]}.{signature}",
        "nothing": "",
        "garbage": "." * 4000,
    }[change]
    assert "not begun in this browser" in refused(browser, back)


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "of-another-login"},
        {"nonce": None},
        {"aud": "another-client"},
        {"aud": ["console", "another-client"]},
        {"aud": ["console", "another-client"], "azp": "another-client"},
        {"azp": "another-client"},
        {"iss": "https://127.0.0.1:1/realms/tests"},
        {"exp": 1},
        {"sub": ""},
        {"groups": {"staff": 1}},
    ],
    ids=str,
)
def test_an_id_token_for_somebody_else_does_not_count(
    browser: PlainBrowser, provider: TokenProvider, changes: dict[str, Any]
) -> None:
    back = browser.at_provider("ann")
    provider.changes.update(changes)
    assert "does not count" in refused(browser, back)


def test_what_the_provider_refuses_is_said(browser: PlainBrowser) -> None:
    state = parse_qs(urlsplit(browser.get("/console/login/oidc").location).query)["state"][0]
    page = refused(browser, f"/console/login/oidc/callback?state={state}&error=access_denied%3Cb%3E")
    assert "The provider refused the log-in: access_denied&lt;b&gt;" in page
    state = parse_qs(urlsplit(browser.get("/console/login/oidc").location).query)["state"][0]
    refused(browser, f"/console/login/oidc/callback?state={state}&code=x&iss=https://evil.example")


def test_a_login_leads_to_no_other_site(browser: PlainBrowser) -> None:
    for following in ("https://evil.example/", "//evil.example", "/\\evil.example"):
        opened = browser.get(browser.at_provider("ann", following))
        assert opened.location == "/"


def test_without_the_provider_the_page_says_so_and_passwords_remain(
    browser: PlainBrowser, provider: TokenProvider
) -> None:
    back = browser.at_provider("ann")
    provider.stop()
    try:
        page = refused(browser, back, 503)
        assert "cannot be reached" in page and 'name="password"' in page
    finally:
        provider.start()
    assert browser.get(browser.at_provider("ann")).status == 303
