"""How the console is to be used: keys, colours, labels, small screens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SCREENSHOTS, WAIT_MS, watched
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin, Producer, TopicPartition
from tidelog.gateways.console.parts.amounts import moment

expect.set_options(timeout=WAIT_MS)

Topic = Callable[..., str]


@pytest.fixture
def places(broker: TidelogBroker, topic: Topic) -> list[str]:
    """Every kind of page, with something on it."""
    name = topic(partitions=3)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(30):
            producer.send(name, b'{"order": %d, "note": "%s"}' % (number, b"long " * 40), key=b"k")
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("readers", {TopicPartition(name, 0): 0})
    return [
        "/",
        "/console/topics",
        f"/console/topics/{name}",
        f"/console/topics/{name}/messages",
        f"/console/topics/{name}/messages/0/0",
        f"/console/topics/{name}/tail",
        f"/console/topics/{name}/settings",
        f"/console/topics/{name}/produce",
        "/console/groups",
        "/console/groups/show?name=readers",
        "/console/groups/reset?name=readers&to=earliest",
        "/console/shares",
        "/console/transactions",
        "/console/schemas",
        "/console/create-topic",
        "/console/register-schema",
        "/console/brokers",
        "/console/brokers/1",
        "/console/alerts",
        "/console/plan",
        "/console/nowhere",
    ]


def test_keys_lead_everywhere(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    expect(page.get_by_label("Find a topic or group")).to_be_focused()
    page.keyboard.type("g t")  # in a field keys are letters
    expect(page.get_by_label("Find a topic or group")).to_have_value("g t")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/console/topics")  # and for its script
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.goto("/console/brokers")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to main content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_search_goes_straight_to_what_bears_the_name(page: Page, topic: Topic) -> None:
    name = topic()
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def test_dark_and_light_follow_the_system_and_the_switch(chromium: Browser, site: str) -> None:
    context = chromium.new_context(base_url=site, color_scheme="dark")
    page = context.new_page()

    def brightness() -> int:
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return sum(int(one) for one in colour[4:-1].split(","))

    page.goto("/")
    assert brightness() < 150
    page.get_by_role("button", name="light and dark theme").click()
    assert brightness() > 600
    page.goto("/console/topics")  # the next page knows
    assert brightness() > 600
    page.get_by_role("button", name="light and dark theme").click()
    assert brightness() < 150
    context.close()


UNLABELLED = """() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea, button, a')].filter(
  one => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim())).map(one => one.outerHTML)"""

# Text that is hard to read: less contrast with what is behind it than WCAG AA asks for.
FAINT = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(one => one / 255).map(
    one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4).reduce(
    (sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const [r, g, b, a = 1] = parts(getComputedStyle(one).backgroundColor);
      if (a > 0.99) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const one = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || one.closest('svg, option, .off, dialog, .hidden, .skip')) continue;
    if (!one.checkVisibility()) continue;
    const [a, b] = [light(parts(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) found.add(`${contrast.toFixed(1)} ${one.outerHTML.slice(0, 120)}`);
  }
  return [...found];
}"""


@pytest.fixture(params=["light", "dark"])
def coloured(chromium: Browser, site: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = chromium.new_context(
        base_url=site, color_scheme=request.param, viewport={"width": 1280, "height": 900}
    )
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    problems = watched(page)
    yield page
    context.close()
    assert not problems, problems


def test_every_page_can_be_read_and_its_controls_have_names(coloured: Page, places: list[str]) -> None:
    scheme = coloured.evaluate("matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for number, place in enumerate(places):
        coloured.goto(place)
        assert coloured.locator("h1").count() == 1, place
        assert coloured.title().endswith("Tidelog"), place
        assert coloured.evaluate(UNLABELLED) == [], place
        assert coloured.evaluate(FAINT) == [], place
        repeated = "() => [...document.querySelectorAll('[id]')].map(one => one.id)"
        ids = coloured.evaluate(repeated)
        assert len(ids) == len(set(ids)), place
        coloured.screenshot(path=SCREENSHOTS / f"{scheme}-{number:02}.png", full_page=True)


def test_every_page_fits_a_small_screen(chromium: Browser, site: str, places: list[str]) -> None:
    context = chromium.new_context(base_url=site, viewport={"width": 360, "height": 740})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    for number, place in enumerate(places):
        page.goto(place)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, place
        page.screenshot(path=SCREENSHOTS / f"small-{number:02}.png")
    expect(page.get_by_role("link", name="Brokers")).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Brokers").click()
    expect(page.get_by_role("heading", name="Brokers")).to_be_visible()
    context.close()


def test_a_message_folds_and_its_time_is_local_if_asked(
    chromium: Browser, broker: TidelogBroker, topic: Topic
) -> None:
    name = topic()
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        at_ms = time.time_ns() // 1_000_000 - 60_000
        sent = producer.send(name, b'{"order": {"items": [1, 2]}, "paid": true}', timestamp=at_ms).get(
            timeout=20
        )
    context = chromium.new_context(base_url=f"http://{broker.http}", timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"/console/topics/{name}/messages/{sent.partition}/{sent.offset}")
    tree = page.locator(".json")
    expect(tree.get_by_text("paid")).to_be_visible()
    summary = tree.locator("summary").nth(1)
    summary.focus()
    page.keyboard.press("Enter")
    expect(tree.get_by_text("items", exact=True)).to_be_hidden()
    page.keyboard.press("Enter")
    expect(tree.get_by_text("items", exact=True)).to_be_visible()

    shown = page.locator("time[data-ms]")
    expect(shown).to_have_text(moment(at_ms))
    page.get_by_role("button", name="Local time").click()
    expect(shown).to_have_text(moment(at_ms + 19_800_000))
    page.goto(f"/console/topics/{name}/messages")
    expect(page.locator("time[data-ms]")).to_have_text(moment(at_ms + 19_800_000))
    expect(page.get_by_role("columnheader", name="Time (local)")).to_be_visible()
    page.get_by_role("button", name="Local time").click()
    expect(page.locator("time[data-ms]")).to_have_text(moment(at_ms))
    context.close()
