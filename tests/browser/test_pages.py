"""Pages of the console: what is looked at, found and changed."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from playwright.sync_api import Browser, Page, expect

import tidelog
from tests.browser.conftest import WAIT_MS
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin, ConfigResource, Consumer, Producer, TopicPartition

expect.set_options(timeout=WAIT_MS)

Topic = Callable[..., str]


def write(
    broker: TidelogBroker, topic: str, *values: bytes, key: bytes | None = None, **more: object
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for value in values:
            producer.send(topic, value, key=key, **more)  # type: ignore[arg-type]


def rows(page: Page) -> list[str]:
    return page.locator("main table").first.locator("tbody tr").all_inner_texts()


def test_the_overview_moves(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name = topic()
    page.goto("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator(".figure", has_text="Health")).to_contain_text(re.compile("Healthy|alerts? firing"))
    expect(page.locator("svg.chart").first).to_be_visible()
    shown = page.locator("svg.chart").first.get_attribute("aria-label")
    # Without loading the page anew: as long as messages come, their topic is among the busiest.
    busiest = page.locator("main").get_by_role("link", name=name)
    for _ in range(WAIT_MS // 1000):
        write(broker, name, *[b"x" * 100] * 200)
        page.wait_for_timeout(1000)
        if busiest.count():
            break
    expect(busiest).to_be_visible()
    expect(page.locator("svg.chart").first).not_to_have_attribute("aria-label", shown or "")


def test_a_topic_is_created_grown_and_deleted(page: Page) -> None:
    name = f"made.{uuid.uuid4().hex[:8]}"
    page.goto("/console/topics")
    page.get_by_role("link", name="Create topic").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Partitions").fill("2")
    page.get_by_label("Settings").fill("cleanup.policy=compact\nretention.ms=3600000")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("status")).to_have_text(f"Topic {name} was created.")
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    page.get_by_label("New number of partitions").fill("5")
    page.get_by_role("button", name="Add partitions").click()
    expect(page.get_by_role("status")).to_have_text(f"{name} now has 5 partitions.")
    expect(page.locator("table").first.locator("tbody tr")).to_have_count(5)
    page.get_by_label("Enter the topic name").fill("another")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was deleted")
    page.get_by_label("Enter the topic name").fill(name)
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("status")).to_have_text(f"Topic {name} was deleted.")
    page.goto(f"/console/topics/{name}")
    expect(page.get_by_role("alert")).to_contain_text("does not exist")


def test_a_failed_topic_form_says_why_and_keeps_what_was_typed(page: Page, topic: Topic) -> None:
    name = topic()
    page.goto("/console/create-topic")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Settings").fill("retention.ms=1000")
    page.get_by_label("Partitions").fill("7")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_contain_text("exists")
    expect(page.get_by_label("Name", exact=True)).to_have_value(name)
    expect(page.get_by_label("Partitions")).to_have_value("7")
    expect(page.get_by_label("Settings")).to_have_value("retention.ms=1000")
    page.get_by_label("Name", exact=True).fill("fine")
    page.get_by_label("Settings").fill("no equals sign")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_contain_text("enter one key=value per line")
    expect(page.get_by_label("Settings")).to_have_value("no equals sign")


def test_settings_are_changed_in_place(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name = topic()
    page.goto(f"/console/topics/{name}/settings?q=retention.ms")
    form = page.get_by_role("form", name=f"retention.ms of topic {name}", exact=True)
    field = form.get_by_role("textbox")
    field.fill("7200000")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_have_text(f"retention.ms of {name} is now 7200000.")
    resource = ConfigResource("topic", name)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:

        def value() -> str | None:
            return admin.describe_configs([resource], ["retention.ms"])[resource][0].value

        assert value() == "7200000"
        form.get_by_role("textbox").fill("soon")
        form.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("retention.ms")
        assert value() == "7200000"
        form.get_by_role("button", name="Reset to default").click()
        expect(page.get_by_role("status")).to_contain_text("reset to its default")
        assert value() == "604800000"


def test_messages_are_found_by_key_value_offset_and_time(
    page: Page, broker: TidelogBroker, topic: Topic
) -> None:
    name = topic(partitions=3)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(300):
            producer.send(
                name,
                f'{{"order": {number}}}'.encode(),
                key=f"customer-{number % 30}".encode(),
                headers=[("trace", b"needle" if number == 123 else b"hay")],
                timestamp=1_700_000_000_000 + number * 1000,
                partition=number % 3,
            )
    page.goto(f"/console/topics/{name}/messages")
    newest = rows(page)
    assert len(newest) == 50 and '{"order": 299}' in newest[0] and "JSON" in newest[0]
    page.get_by_label("Key contains").fill("customer-17")
    page.get_by_role("button", name="Show messages").click()
    expect(page.locator(".pages [role=status]")).to_have_text("10 found in 300 messages")
    assert len(rows(page)) == 10 and all("customer-17" in one for one in rows(page))
    page.get_by_label("Key contains").fill("")
    page.get_by_label("Value or header contains").fill("needle")
    page.get_by_role("button", name="Show messages").click()
    expect(page.locator(".pages [role=status]")).to_have_text("1 found in 300 messages")
    assert len(rows(page)) == 1 and '{"order": 123}' in rows(page)[0]
    page.goto(f"/console/topics/{name}/messages?from=time&time=2023-11-14T22:16:40")
    assert '{"order": 200}' in rows(page)[0]
    page.goto(f"/console/topics/{name}/messages?from=offset&offset=97&partition=2")
    assert [one.split("\t")[1] for one in rows(page)] == ["97", "98", "99"]
    page.goto(f"/console/topics/{name}/messages?from=time&time=soon")
    expect(page.get_by_role("alert")).to_contain_text("is not a time")


def test_a_search_reads_window_after_window(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name = topic()
    write(broker, name, b"needle", *[b"hay"] * 1800, b"needle too")
    page.goto(f"/console/topics/{name}/messages?value=needle")
    assert [one.split("\t")[1] for one in rows(page)] == ["1,801", "0"]
    expect(page.locator(".pages [role=status]")).to_have_text("2 found in 1,802 messages")


def test_pages_of_messages_lose_none_and_show_none_twice(
    page: Page, broker: TidelogBroker, topic: Topic
) -> None:
    name = topic(partitions=3)
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(130):
            # Times that run backwards in two of the partitions.
            stamp = 1_700_000_000_000 + (number if number % 3 else -number) * 1000
            producer.send(name, str(number).encode(), partition=number % 3, timestamp=stamp)
    for begin in ("newest", "oldest"):
        page.goto(f"/console/topics/{name}/messages?from={begin}&limit=20")
        seen = rows(page)
        while page.locator("a[rel=next]").count():
            page.goto(page.locator("a[rel=next]").get_attribute("href") or "")
            seen += rows(page)
        places = [tuple(one.split("\t")[:2]) for one in seen]
        assert len(places) == len(set(places)) == 130, begin


def test_one_message_whole_and_downloaded(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name = topic()
    blob = bytes(range(256)) * 40
    write(broker, name, blob, key=b"blob")
    page.goto(f"/console/topics/{name}/messages/0/0")
    expect(page.locator("main")).to_contain_text("000000  00 01 02 03")
    with page.expect_download() as coming:
        page.get_by_role("link", name="Download").last.click()
    assert coming.value.path().read_bytes() == blob
    page.goto(f"/console/topics/{name}/messages/0/77")
    expect(page.get_by_role("alert")).to_contain_text("There is no message 77")


def test_the_live_tail_shows_what_comes(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name = topic()
    write(broker, name, b"before")
    page.goto(f"/console/topics/{name}/tail?value=wanted")
    expect(page.locator("#tail-state")).to_have_text("waiting for messages")
    first = page.locator("table[data-tail] tbody tr").first
    write(broker, name, b"unwatched", b"wanted 1")
    expect(first).to_contain_text("wanted 1")
    assert "unwatched" not in page.locator("table[data-tail]").inner_text()
    page.get_by_role("button", name="Pause").click()
    write(broker, name, b"wanted 2")
    expect(page.locator("#tail-state")).to_contain_text("1 waiting")
    assert "wanted 2" not in page.locator("table[data-tail]").inner_text()
    page.get_by_role("button", name="Resume").click()
    expect(first).to_contain_text("wanted 2")


def test_a_message_is_written_by_hand(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name = topic(partitions=2)
    page.goto(f"/console/topics/{name}/produce")
    page.get_by_role("textbox", name="Key").fill("k")
    page.get_by_role("textbox", name="Value").fill('{"a": \n 1}')
    page.get_by_role("combobox", name="Value format").select_option("json")
    page.get_by_label("Partition").fill("1")
    page.get_by_label("Headers").fill("trace: abc\nempty:")
    page.get_by_role("button", name="Produce message").click()
    page.get_by_role("status").get_by_role("link", name="offset 0").click()
    expect(page.get_by_role("heading", name="Message 0")).to_be_visible()
    with Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([TopicPartition(name, 1)])
        consumer.seek_to_beginning()
        (record,) = consumer.poll(WAIT_MS)
    assert (record.key, record.value) == (b"k", b'{"a":1}')
    assert record.headers == (("trace", b"abc"), ("empty", b""))
    page.goto(f"/console/topics/{name}/produce")
    page.get_by_role("textbox", name="Value").fill("{")
    page.get_by_role("combobox", name="Value format").select_option("json")
    page.get_by_role("button", name="Produce message").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was written: the text is not JSON")
    expect(page.get_by_role("textbox", name="Value")).to_have_value("{")


def test_a_group_is_reset_after_a_look_at_what_would_happen(
    page: Page, broker: TidelogBroker, topic: Topic
) -> None:
    name, group = topic(partitions=2), f"billing/{uuid.uuid4().hex[:8]} ü"
    write(broker, name, *[b"x"] * 40)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        ends = admin.list_offsets({TopicPartition(name, one): "latest" for one in range(2)})
        for one, end in ends.items():
            admin.alter_group_offsets(group, {one: end.offset})
        page.goto("/console/groups")
        page.get_by_placeholder("Name contains").fill(group)
        page.get_by_role("button", name="Search").click()
        page.locator("main").get_by_role("link", name=group).click()
        expect(page.get_by_role("heading", name=group)).to_be_visible()
        page.get_by_role("combobox", name="To").select_option("earliest")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_text("nothing has been changed")).to_be_visible()
        assert {one.offset for one in admin.list_group_offsets(group).values()} != {0}
        page.get_by_role("button", name=re.compile("Reset .* of 2 partitions")).click()
        expect(page.get_by_role("status")).to_contain_text("were reset")
        assert {one.offset for one in admin.list_group_offsets(group).values()} == {0}
        expect(page.locator(".figure", has_text="messages to read")).to_contain_text("40")
    with Consumer(name, bootstrap_servers=broker.bootstrap, group_id=group) as consumer:
        consumer.poll(WAIT_MS)
        page.reload()
        page.get_by_role("combobox", name="To").select_option("latest")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("status")).to_contain_text("has 1 member: the reset will be refused")
        page.get_by_role("button", name=re.compile("Reset")).click()
        expect(page.get_by_role("alert")).to_contain_text("has 1 member")


def test_a_page_needs_few_requests_however_many_topics(page: Page, broker: TidelogBroker, site: str) -> None:
    from tests.browser.figures import requests_of

    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        from tidelog import NewTopic

        prefix = f"many-{uuid.uuid4().hex[:6]}"
        admin.create_topics([NewTopic(f"{prefix}-{number:03}", partitions=1) for number in range(120)])
    page.goto(f"/console/topics?q={prefix}")
    expect(page.locator(".pages").first).to_contain_text("1–50 of 120")
    before = requests_of(site)
    page.goto(f"/console/topics?q={prefix}&page=3")
    assert len(rows(page)) == 20
    # The poller asks too, meanwhile: a request for each topic would be 120 at least.
    assert requests_of(site) - before < 40
    page.get_by_role("link", name="Topic", exact=True).first.click()
    expect(page.locator("main tbody tr").first).to_contain_text(f"{prefix}-119")


def test_a_plan_says_what_a_load_needs(page: Page) -> None:
    page.goto("/console/plan")
    # A billion messages of 1 KB a day, kept for a week, three times.
    expect(page.locator(".figure", has_text="Storage")).to_contain_text("21 TB")
    page.get_by_label("Messages per day").fill("2e9")
    page.get_by_text("Capacity of one broker and one consumer").click()
    page.get_by_label("Broker disk").fill("1TB")
    page.get_by_role("button", name="Plan").click()
    expect(page.locator(".figure", has_text="Storage")).to_contain_text("42 TB")
    expect(page.locator(".figure", has_text="Brokers").first).to_contain_text("limited by disks")
    expect(page.get_by_text("The load does not fit this cluster")).to_be_visible()
    page.get_by_label("Retention").fill("soon")
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("alert")).to_contain_text("'soon' is not a time")


def test_pages_work_without_a_script(chromium: Browser, site: str) -> None:
    context = chromium.new_context(base_url=site, java_script_enabled=False)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    name = f"plain.{uuid.uuid4().hex[:8]}"
    page.goto("/console/create-topic")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("status")).to_have_text(f"Topic {name} was created.")
    page.get_by_role("link", name="Messages").click()
    expect(page.get_by_text("There are no messages yet.")).to_be_visible()
    context.close()


def test_every_page_names_the_version_the_cluster_and_the_broker(page: Page, broker: TidelogBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        cluster_id = admin.describe_cluster().id
    for place in ("/", "/console/topics", "/console/nowhere"):
        page.goto(place)
        identity = page.locator(".identity")
        expect(identity).to_contain_text(f"Tidelog {tidelog.__version__}")
        expect(identity).to_contain_text(f"Cluster {cluster_id}")
        expect(identity).to_contain_text("Broker 1")


def test_a_group_is_deleted_only_when_confirmed(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name, group = topic(), f"old-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(name, 0): 0})
        page.goto(f"/console/groups/show?name={group}")
        page.get_by_role("button", name="Delete group").click()
        assert [listed for listed in admin.list_groups() if listed.group_id == group]
        page.get_by_label("Delete the group and its committed offsets").check()
        page.get_by_role("button", name="Delete group").click()
        expect(page.get_by_role("status")).to_have_text(f"Group {group} was deleted.")


def test_settings_of_the_command_line_are_counted(page: Page) -> None:
    page.goto("/console/brokers/1")
    expect(page.locator("main")).to_contain_text(re.compile(r"[1-9]\d* from the broker's configuration"))
