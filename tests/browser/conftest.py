"""A broker, and a real Chromium that looks at its console.

Whatever page is looked at, a script that does not belong to it, a blocked resource or an error in the browser's log fails
the test.  Screenshots lie in build/screenshots afterwards."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.conformance.tidelog_broker import TidelogBroker
from tests.conformance.topics import create_topic

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
LEFT = "net::ERR_ABORTED"  # the page was left before it came, or it became a file
WAIT_MS = 60_000  # on a busy machine
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one worker: one browser is enough work for a machine."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Not for the whole session: Playwright's event loop would be in the way of tests with one of their own."""
    found = shutil.which("chromium")
    assert found, "Chromium is missing: tools/install-test-tools installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogBroker]:
    running = TidelogBroker(tmp_path_factory.mktemp("console"), SETTINGS)
    running.start()
    yield running
    assert running.alive(), f"the broker died during the tests: {running.log_tail()}"
    running.stop()


@pytest.fixture
def site(broker: TidelogBroker) -> str:
    return f"http://{broker.http}"


@pytest.fixture
def context(chromium: Browser, site: str) -> Iterator[BrowserContext]:
    opened = chromium.new_context(base_url=site, viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(WAIT_MS)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Page]:
    opened = context.new_page()
    problems = watched(opened)
    yield opened
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^\w-]+", "-", request.node.name)
    opened.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
    assert not problems, problems


def watched(page: Page) -> list[str]:
    """What goes wrong in the page from now on.  An answer that refuses something is no such thing."""
    problems: list[str] = []

    def said(message: object) -> None:
        text = str(getattr(message, "text", ""))
        if getattr(message, "type", "") == "error" and "the server responded with a status of" not in text:
            problems.append(text)

    page.on("console", said)
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("requestfailed", lambda one: problems.append(one.url) if one.failure != LEFT else None)
    return problems


@pytest.fixture
def topic(broker: TidelogBroker) -> Callable[..., str]:
    def create(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        create_topic(broker.bootstrap, name, partitions, config)
        return name

    return create
