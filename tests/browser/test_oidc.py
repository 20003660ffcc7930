"""The log-in through an OpenID Connect provider in a real browser: cookies, redirects and policies as Chromium sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from playwright.sync_api import Browser, expect

from tests.browser.conftest import WAIT_MS, watched
from tests.conformance.certificates import make_certificates
from tests.conformance.oauth_broker import OauthBroker
from tests.conformance.token_provider import TokenProvider


def test_a_person_logs_in_through_the_provider_and_out_again(chromium: Browser, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    provider = TokenProvider(tmp_path)
    broker = OauthBroker(tmp_path / "broker", provider, {"super.users": "User:ann;User:brokers"})
    provider.start()
    broker.start()
    context = chromium.new_context(base_url=broker.site, ignore_https_errors=True)
    context.set_default_timeout(WAIT_MS)
    try:
        page = context.new_page()
        problems = watched(page)
        page.goto("/console/topics")
        page.get_by_role("link", name="Log in with the tests").click()
        page.get_by_role("link", name="I am ann").click()
        expect(page.get_by_role("heading", name="Topics")).to_be_visible(timeout=WAIT_MS)
        expect(page.get_by_text("Logged in as ann")).to_be_visible(timeout=WAIT_MS)
        assert page.url == f"{broker.site}/console/topics"
        names = {cookie["name"]: cookie for cookie in context.cookies()}
        assert names["tidelog_session"]["httpOnly"] and names["tidelog_session"]["secure"]
        assert "tidelog_oidc" not in names
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("link", name="Log in with the tests")).to_be_visible(timeout=WAIT_MS)
        page.goto("/console/brokers")
        expect(page.get_by_label("User name")).to_be_visible(timeout=WAIT_MS)
        assert not problems, problems
    finally:
        context.close()
        broker.stop()
        provider.stop()
