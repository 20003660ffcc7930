"""Every broker of a cluster shows all of it; a broker that dies is told about."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SCREENSHOTS, WAIT_MS, watched
from tests.faults.test_dev import Dev
from tidelog import Admin, ConfigResource, NewTopic, Producer, ShareConsumer

expect.set_options(timeout=WAIT_MS)


@pytest.fixture
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    cluster = Dev(tmp_path_factory.mktemp("dev"), 3)
    cluster.start()
    yield cluster
    cluster.discard()


def worker(bootstrap: str) -> ShareConsumer:
    return ShareConsumer(
        "jobs", bootstrap_servers=bootstrap, group_id="workers", acknowledgement_mode="explicit"
    )


def look(chromium: Browser, port: int) -> Page:
    context = chromium.new_context(
        base_url=f"http://127.0.0.1:{port}", viewport={"width": 1280, "height": 900}
    )
    context.set_default_timeout(WAIT_MS)
    return context.new_page()


def test_any_broker_shows_the_whole_cluster(chromium: Browser, dev: Dev) -> None:
    bootstrap = f"127.0.0.1:{dev.port}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        # A partition for each broker to lead, and a share group over all of them.
        admin.create_topics([NewTopic("jobs", assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})])
        admin.alter_configs({ConfigResource("group", "workers"): {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(30):
            producer.send("jobs", b"job", partition=number % 3)
    with ExitStack() as workers:
        idle = [workers.enter_context(worker(bootstrap)) for _ in range(3)]
        seen: set[int] = set()
        while seen != {0, 1, 2}:
            for one in list(idle):
                if records := one.poll(500):
                    seen |= {record.partition for record in records}
                    idle.remove(one)  # it holds what it has
        for broker in range(3):
            page = look(chromium, dev.port + 1000 + broker)
            problems = watched(page)
            page.goto("/console/brokers")
            table = page.get_by_role("region", name="Brokers")
            # Memory and connections come from each broker itself.
            expect(table.locator("tbody tr", has_text="MiB")).to_have_count(3)
            page.goto("/console/topics/jobs/messages?limit=200")
            expect(page.locator("tbody tr")).to_have_count(30)
            page.goto("/console/shares/show?name=workers")
            flight = page.get_by_role("region", name="Messages in flight")
            expect(flight.locator("tbody tr", has_text="acquired")).to_have_count(3)
            assert not problems, problems
            page.context.close()
    os.kill(next(one["pid"] for one in dev.state()["brokers"] if one["id"] == 3), signal.SIGKILL)
    page = look(chromium, dev.port + 1000)
    page.goto("/console/alerts")
    row = page.locator("tbody tr", has_text="BrokerDown")
    expect(row).to_contain_text("broker 3")
    page.goto("/")
    expect(page.locator(".figure", has_text="Health")).to_contain_text("1 broker missing")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "a-broker-died.png", full_page=True)
    page.context.close()
