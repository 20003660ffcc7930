"""What the PostgreSQL source does with what it meets: kinds of changes, tables, log-ins, slots."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.process import wait_until
from tests.connect.conftest import NewWorker
from tests.connect.postgres_server import PostgresServer
from tests.connect.test_postgres_pipe import SECRET, create, source_settings
from tests.connect.topics import committed
from tests.connect.workers import Worker
from tidelog.testing import ChildBroker


@pytest.fixture
def worker(broker: ChildBroker, worker_of: NewWorker, name: str) -> Worker:
    return worker_of(broker.bootstrap_servers, name, environment=SECRET)


def payloads(broker: ChildBroker, topic: str) -> list[Any]:
    return [
        None if value is None else json.loads(value)
        for _, value in committed(broker.bootstrap_servers, topic)
    ]


def test_changes_are_debeziums_envelopes(
    worker: Worker, broker: ChildBroker, postgres: PostgresServer, name: str
) -> None:
    postgres.run(
        "CREATE TABLE goods (id int PRIMARY KEY, note text, big text)",
        "ALTER TABLE goods ALTER COLUMN big SET STORAGE EXTERNAL",
        "INSERT INTO goods VALUES (1, 'pears', repeat('x', 10000))",
    )
    flat = {"key__converter__schemas__enable": "false", "value__converter__schemas__enable": "false"}
    create(worker, name, source_settings(postgres, name, skipped__operations="none", **flat))
    topic = f"{name}.public.goods"
    wait_until(lambda: "created topic" in worker.log.read_text(), 60, "the snapshot is written")
    postgres.run(
        "UPDATE goods SET note = 'plums' WHERE id = 1",
        "UPDATE goods SET id = 2 WHERE id = 1",
        "DELETE FROM goods",
        "ALTER TABLE goods ADD COLUMN price numeric(6, 2)",
        "INSERT INTO goods VALUES (3, 'figs', NULL, 1.5)",
        "TRUNCATE goods",
    )
    wait_until(lambda: len(payloads(broker, topic)) == 9, 60, "nine records arrive")
    keys = [
        None if key is None else json.loads(key)["id"]
        for key, _ in committed(broker.bootstrap_servers, topic)
    ]
    assert keys == [1, 1, 1, 1, 2, 2, 2, 3, None]
    values = payloads(broker, topic)
    assert [value and value["op"] for value in values] == ["r", "u", "d", None, "c", "d", None, "c", "t"]
    assert values[1]["after"] == {"id": 1, "note": "plums", "big": "__debezium_unavailable_value"}
    assert values[7]["after"] == {"id": 3, "note": "figs", "big": None, "price": "AJY="}
    source = values[1]["source"]
    assert (source["connector"], source["name"], source["schema"], source["table"]) == (
        "postgresql",
        name,
        "public",
        "goods",
    )
    assert values[0]["source"]["snapshot"] == "true" and source["snapshot"] == "false"


def test_the_slot_moves_on_while_only_other_tables_change(
    worker: Worker, postgres: PostgresServer, name: str
) -> None:
    postgres.run("CREATE TABLE goods (id int PRIMARY KEY)", "CREATE TABLE other (id int)")
    create(worker, name, source_settings(postgres, name))
    worker.wait_running(name)
    end = postgres.run(
        "INSERT INTO other SELECT generate_series(1, 1000)", "SELECT pg_current_wal_lsn()::text"
    )[0][0]

    def confirmed() -> bool:
        return bool(
            postgres.run(f"SELECT confirmed_flush_lsn >= '{end}'::pg_lsn FROM pg_replication_slots")[0][0]
        )

    wait_until(confirmed, 60, "the slot moves on")


def test_an_outbox_becomes_events(
    worker: Worker, broker: ChildBroker, postgres: PostgresServer, name: str
) -> None:
    postgres.run(
        "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)"
    )
    more = {
        "table.include.list": "public.outbox",
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.route.topic.replacement": f"{name}.${{routedByValue}}",
        "value.converter": "string",
        "key.converter": "string",
    }
    create(worker, name, {**source_settings(postgres, name), **more})
    worker.wait_running(name)
    insert = "INSERT INTO outbox VALUES (gen_random_uuid(), %s, %s, 'made', %s)"
    with postgres.connect() as connection:
        connection.execute(insert, ("order", "7", '{"total": 3}'))
        connection.execute("DELETE FROM outbox")
        connection.execute(insert, ("order", "8", '{"total": 4}'))
    topic = f"{name}.order"
    wait_until(lambda: topic in worker.log.read_text(), 60, "the topic is made")
    wait_until(lambda: len(committed(broker.bootstrap_servers, topic)) == 2, 60, "two events arrive")
    assert committed(broker.bootstrap_servers, topic) == [(b"7", b'{"total": 3}'), (b"8", b'{"total": 4}')]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"database.user": "nobody"}, 'password authentication failed for user "nobody"'),
        ({"database.dbname": "nothing"}, 'database "nothing" does not exist'),
        ({"table.include.list": "public.nothing"}, "no table matches table.include.list"),
        (
            {"publication.autocreate.mode": "disabled"},
            "there is no publication dbz_publication: CREATE PUBLICATION",
        ),
        ({"database.password": "${env:NOT_HERE}"}, "variable NOT_HERE, which this worker does not have"),
    ],
)
def test_what_cannot_work_fails_the_connector_and_says_what_to_do(
    worker: Worker, postgres: PostgresServer, name: str, more: dict[str, str], words: str
) -> None:
    create(worker, name, {**source_settings(postgres, name), **more})

    def traces() -> str:
        status = worker.status(name)
        return "\n".join(part.get("trace", "") for part in (status["connector"], *status["tasks"]))

    wait_until(lambda: words in traces(), 60, f"{name} says: {words}")


def test_a_slot_that_is_gone_is_not_passed_over_in_silence(
    worker: Worker, postgres: PostgresServer, name: str
) -> None:
    postgres.run("CREATE TABLE goods (id int PRIMARY KEY)", "INSERT INTO goods VALUES (1)")
    create(worker, name, source_settings(postgres, name))
    wait_until(lambda: "created topic" in worker.log.read_text(), 60, "the snapshot is written")

    def streams() -> bool:
        offsets = worker.ask("GET", f"/connectors/{name}/offsets")[1]["offsets"]
        return bool(offsets) and "snapshot" not in offsets[0]["offset"]

    wait_until(streams, 60, "it streams")
    worker.ask("PUT", f"/connectors/{name}/stop")
    wait_until(
        lambda: postgres.run("SELECT NOT active FROM pg_replication_slots") == [(True,)], 60, "it is stopped"
    )
    postgres.run("SELECT pg_drop_replication_slot('debezium')", "INSERT INTO goods VALUES (2)")
    worker.ask("PUT", f"/connectors/{name}/resume")
    worker.wait_failed(name, "replication slot debezium is gone.*delete the offsets")
    worker.ask("PUT", f"/connectors/{name}/stop")
    assert worker.ask("DELETE", f"/connectors/{name}/offsets")[0] == 200
    worker.ask("PUT", f"/connectors/{name}/resume")
    worker.wait_running(name)
