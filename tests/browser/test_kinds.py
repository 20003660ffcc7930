"""Schemas, transactions and share groups, looked at and changed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import WAIT_MS
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin, ConfigResource, Producer, ShareConsumer
from tidelog.errors import ProducerFenced

expect.set_options(timeout=WAIT_MS)

Topic = Callable[..., str]


def avro(*fields: tuple[str, str]) -> str:
    rows = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": rows})


def test_schemas_are_registered_compared_tried_and_used(page: Page, topic: Topic) -> None:
    name = topic()
    subject = f"{name}-value"
    page.goto("/console/schemas")
    page.get_by_role("link", name="Register schema").click()
    page.get_by_role("textbox", name="Subject").fill(subject)
    page.get_by_role("textbox", name="Schema").fill(avro(("id", "long"), ("note", "string")))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("status")).to_contain_text("The schema was registered with id")

    # A version that old readers' messages do not fit is told before anything is registered.
    field = page.get_by_role("textbox", name="New version")
    field.fill(avro(("id", "long"), ("note", "string"), ("price", "double")))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("The schema is not compatible.")
    expect(page.get_by_role("alert")).to_contain_text("price")
    page.get_by_role("textbox", name="New version").fill(avro(("id", "long")))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status")).to_contain_text("The schema is compatible")
    page.get_by_role("textbox", name="New version").fill("{nonsense")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_be_visible()

    page.goto("/console/schemas")
    page.get_by_role("link", name="Register schema").click()
    page.get_by_role("textbox", name="Subject").fill(subject)
    page.get_by_role("textbox", name="Schema").fill(avro(("id", "long")))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name="From version 1 to 2")).to_be_visible()
    assert '-       "name": "note",' in page.locator(".diff .removed").all_inner_texts()

    page.goto(f"/console/topics/{name}/produce")
    page.get_by_role("textbox", name="Value").fill('{"id": 7}')
    page.get_by_role("combobox", name="Value format").select_option("schema")
    page.get_by_role("button", name="Produce message").click()
    expect(page.get_by_role("status")).to_contain_text("Written to partition 0")
    page.get_by_role("textbox", name="Value").fill('{"id": "seven"}')
    page.get_by_role("button", name="Produce message").click()
    expect(page.get_by_role("alert")).to_contain_text("does not fit the latest schema")
    page.goto(f"/console/topics/{name}/messages")
    row = page.locator("tbody tr").first
    expect(row).to_contain_text('{"id": 7}')
    expect(row).to_contain_text("Avro ")

    page.goto(f"/console/schemas/show?name={subject}")
    page.get_by_role("combobox", name="Compatibility of new versions").select_option("FULL")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("is now FULL")
    page.get_by_role("button", name="Delete version 2").click()
    expect(page.get_by_role("status")).to_contain_text("Version 2 of")
    expect(page.get_by_role("heading", name="Version 1", exact=True)).to_be_visible()


def test_protobuf_and_json_schemas_are_decoded(page: Page, topic: Topic) -> None:
    for kind, schema, typed, shown in (
        ("PROTOBUF", 'syntax = "proto3"; message P { string id = 1; }', '{"id": "p1"}', '{"id": "p1"}'),
        ("JSON", '{"type": "object"}', '{"a": [1]}', '{"a": [1]}'),
    ):
        name = topic()
        page.goto("/console/register-schema")
        page.get_by_role("textbox", name="Subject").fill(f"{name}-value")
        page.get_by_role("combobox", name="Type").select_option(kind)
        page.get_by_role("textbox", name="Schema").fill(schema)
        page.get_by_role("button", name="Register").click()
        expect(page.get_by_role("status")).to_contain_text("The schema was registered with id")
        page.goto(f"/console/topics/{name}/produce")
        page.get_by_role("textbox", name="Value").fill(typed)
        page.get_by_role("combobox", name="Value format").select_option("schema")
        page.get_by_role("button", name="Produce message").click()
        expect(page.get_by_role("status")).to_contain_text("Written to partition 0")
        page.goto(f"/console/topics/{name}/messages")
        expect(page.locator("tbody tr").first).to_contain_text(shown)


def test_an_open_transaction_is_seen_and_aborted(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name, transactional_id = topic(), f"shop/{uuid.uuid4().hex[:8]}"
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id) as producer:
        producer.begin_transaction()
        producer.send(name, b"held")
        producer.flush()
        page.goto(f"/console/topics/{name}/messages")
        expect(page.get_by_text("There are no messages yet.")).to_be_visible()
        page.get_by_label("Include uncommitted messages").check()
        page.get_by_role("button", name="Show messages").click()
        expect(page.locator("tbody tr").first).to_contain_text("held")
        page.goto("/console/transactions?state=Ongoing")
        page.get_by_role("link", name=transactional_id).click()
        expect(page.locator("main")).to_contain_text("Ongoing")
        expect(page.locator("tbody tr").first).to_contain_text(name)
        # One click does nothing: the browser asks for the box to be ticked first.
        page.get_by_role("button", name="Fence producer").click()
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert admin.describe_transactions([transactional_id])[transactional_id].state == "Ongoing"
        page.get_by_label("Fence the producer and abort").check()
        page.get_by_role("button", name="Fence producer").click()
        expect(page.get_by_role("status")).to_contain_text("was fenced")
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            state = admin.describe_transactions([transactional_id])[transactional_id].state
        assert state in ("PrepareAbort", "CompleteAbort", "Empty")
        with pytest.raises(ProducerFenced):
            producer.abort_transaction()


def test_a_share_group_shows_deliveries(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name, group = topic(), f"workers-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs({ConfigResource("group", group): {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(5):
            producer.send(name, b"job %d" % number)
    with ShareConsumer(
        name, bootstrap_servers=broker.bootstrap, group_id=group, acknowledgement_mode="explicit"
    ) as worker:
        for how in ("release", None):
            records = []
            while not records:
                records = worker.poll(1000)
            if how is not None:
                for record in records:
                    worker.acknowledge(record, "release")
                worker.commit()
        page.goto("/console/shares")
        page.get_by_role("link", name=group).click()
        flight = page.get_by_role("region", name="Messages in flight")
        expect(flight).to_contain_text("acquired")
        # Deliveries: given back once, and with the worker for the second time.
        expect(flight.locator("tbody tr").first.locator("td").nth(5)).to_have_text("2")
        expect(page.get_by_role("region", name="Members")).to_contain_text(f"{name} 0")
        expect(page.locator(".figures")).to_contain_text("Lag5messages not acknowledged")
        # The next look at the cluster has it as well.
        expect(page.get_by_role("img", name=f"Lag of {group}: now lag 5")).to_be_visible(timeout=60_000)
