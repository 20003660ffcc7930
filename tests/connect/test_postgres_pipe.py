"""PostgreSQL to topics to another database, while worker, server and broker are killed: rows in equal rows out."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conformance.process import wait_until
from tests.connect.conftest import NewWorker
from tests.connect.postgres_server import PASSWORD, PostgresServer
from tests.connect.topics import committed, end
from tests.connect.workers import Worker
from tidelog.testing import ChildBroker

SECRET = {"SHOP_PASSWORD": PASSWORD}
SCHEMA = """
CREATE TABLE goods (
  id bigint PRIMARY KEY, name text, price numeric(12, 3), any_number numeric, day date, at timestamp, zoned timestamptz,
  clock time, data bytea, tags text[], more jsonb, flag boolean, long_text text, real_number float8, small smallint,
  mark uuid, span interval, bits bit(3));
ALTER TABLE goods REPLICA IDENTITY FULL
"""


def source_settings(postgres: PostgresServer, prefix: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": prefix,
        "database.hostname": "127.0.0.1",
        "database.port": str(postgres.port),
        "database.user": "postgres",
        "database.password": "${env:SHOP_PASSWORD}",
        "database.dbname": "postgres",
        "table.include.list": "public.goods",
        "heartbeat.interval.ms": "500",
        "errors.retry.delay.max.ms": "500",
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def sink_settings(postgres: PostgresServer, topic: str) -> dict[str, str]:
    return {
        "connector.class": "JdbcSink",
        "topics": topic,
        "connection.url": f"jdbc:postgresql://127.0.0.1:{postgres.port}/copy",
        "connection.user": "postgres",
        "connection.password": "${env:SHOP_PASSWORD}",
        "delete.enabled": "true",
        "pk.mode": "record_key",
        "table.name.format": "goods",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true",
        "errors.retry.delay.max.ms": "500",
    }


def create(worker: Worker, name: str, settings: dict[str, str]) -> None:
    status, answer = worker.ask("POST", "/connectors", {"name": name, "config": settings})
    assert status == 201, answer


def rows(connect: Callable[[], Any]) -> list[Any]:
    with connect() as connection:
        # An interval arrives as microseconds: 1 day is 24 hours.
        columns = "(to_jsonb(goods) - 'span')::text, extract(epoch FROM span)"
        return connection.execute(f"SELECT {columns} FROM goods ORDER BY id").fetchall()


def change(connection: psycopg.Connection[Any], dice: random.Random) -> None:
    number = dice.randrange(60)
    kind = dice.random()
    if kind < 0.5:
        row = {
            "id": number,
            "name": dice.choice(["pears", 'plums \\ "quoted"', "", None, "ünïcödé 🍐"]),
            "price": dice.choice(["1.500", "-99999.999", "0.001", None]),
            "any_number": dice.choice(["123456789012345678901234567890.5", "-0.00001", "7", None]),
            "day": dice.choice(["2024-02-29", "0044-03-15 BC", "infinity", "12345-01-01", None]),
            "at": dice.choice(["2024-02-29 23:59:59.999999", "-infinity", "1969-12-31 23:59:59.5", None]),
            "zoned": dice.choice(["2026-01-02 03:04:05.678+02", "1900-01-01 00:00:00+00", None]),
            "clock": dice.choice(["23:59:59.000001", "00:00:00", None]),
            "data": dice.choice(["\\x00ff10", "\\x", None]),
            "tags": dice.choice(['{a,"b c",NULL,"d\\"e"}', "{}", '{{x,y},{z,"NULL"}}', None]),
            "more": dice.choice(['{"a": [1, null, "é"]}', "[]", "null", None]),
            "flag": dice.choice([True, False, None]),
            "long_text": "".join(dice.choices("abcdefgh", k=dice.choice([3, 20_000]))),
            "real_number": dice.choice(["0.1", "-1e300", None]),
            "small": dice.choice([-32768, 7, None]),
            "mark": dice.choice(["129d07c4-8b23-4466-a20b-bbae5393da2b", None]),
            "span": dice.choice(["4 days 05:06:07.5", "-00:00:01", None]),
            "bits": dice.choice(["101", "000", None]),
        }
        names = ", ".join(row)
        sets = ", ".join(f"{name} = excluded.{name}" for name in row if name != "id")
        connection.execute(
            f"INSERT INTO goods ({names}) VALUES ({', '.join(['%s'] * len(row))}) ON CONFLICT (id) DO UPDATE SET {sets}",
            list(row.values()),
        )
    elif kind < 0.7:
        connection.execute("UPDATE goods SET small = %s WHERE id = %s", (dice.randrange(100), number))
    elif kind < 0.8:
        connection.execute(
            "UPDATE goods SET id = id + 1000 WHERE id = %s AND NOT EXISTS (SELECT FROM goods WHERE id = %s)",
            (number, number + 1000),
        )
    else:
        connection.execute("DELETE FROM goods WHERE id = %s OR id = %s + 1000", (number, number))


def transaction(postgres: PostgresServer, dice: random.Random, most: int) -> None:
    with postgres.connect() as connection:
        connection.autocommit = False
        for _ in range(dice.randrange(1, most)):
            change(connection, dice)
        if dice.random() < 0.2:
            connection.rollback()
        connection.commit()


def check_history(bootstrap: str, topic: str) -> None:
    """Each change of the log once, in order: positions in the log only grow, and no snapshot row comes twice."""
    places, snapshot = [], []
    for _, value in committed(bootstrap, topic):
        if value is None:
            continue
        envelope = json.loads(value)["payload"]
        if envelope["op"] == "r":
            assert not places, "the snapshot is before all changes"
            snapshot.append(envelope["after"]["id"])
        else:
            places.append(
                (envelope["source"]["lsn"], envelope["op"], str(envelope["after"] or envelope["before"]))
            )
    assert len(snapshot) == len(set(snapshot))
    assert [place[0] for place in places] == sorted(place[0] for place in places) or len(places) < 2
    assert len(places) == len(set(places))


def play(broker: ChildBroker, worker_of: NewWorker, postgres: PostgresServer, kills: int) -> None:
    dice = random.Random(int(os.environ.get("TIDELOG_SEED", "11")))
    postgres.run(SCHEMA, "CREATE DATABASE copy")

    def copy() -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1", port=postgres.port, user="postgres", password=PASSWORD, dbname="copy"
        )

    with copy() as connection:
        connection.execute(SCHEMA)
    for _ in range(20):
        transaction(postgres, dice, 10)
    worker = worker_of(broker.bootstrap_servers, "connect", environment=SECRET)
    create(worker, "shop", source_settings(postgres, "shop", snapshot__fetch__size="7"))
    create(worker, "copy", sink_settings(postgres, "shop.public.goods"))
    columns = 0
    for _ in range(kills):
        for _ in range(15):
            transaction(postgres, dice, 30)
        if dice.random() < 0.5:
            columns += 1
            statement = f"ALTER TABLE goods ADD COLUMN extra{columns} int"
            with copy() as connection:
                connection.execute(statement)
            postgres.run(statement, f"UPDATE goods SET extra{columns} = id WHERE id < 20")
        victim: Worker | ChildBroker | PostgresServer = dice.choice([worker, worker, broker, postgres])
        victim.kill()
        if victim is not postgres:
            transaction(postgres, dice, 300)
        victim.start()
    transaction(postgres, dice, 3000)
    expected = rows(postgres.connect)
    wait_until(lambda: rows(copy) == expected, 120, "both tables are equal")
    check_history(broker.bootstrap_servers, "shop.public.goods")
    assert PASSWORD not in worker.log.read_text()


def test_rows_in_are_rows_out(
    own_broker: ChildBroker, worker_of: NewWorker, postgres: PostgresServer
) -> None:
    play(own_broker, worker_of, postgres, kills=5)


@pytest.mark.deep
def test_rows_in_are_rows_out_after_many_kills(
    own_broker: ChildBroker, worker_of: NewWorker, postgres: PostgresServer
) -> None:
    play(own_broker, worker_of, postgres, kills=100)


def test_a_snapshot_that_is_interrupted_goes_on(
    broker: ChildBroker, worker_of: NewWorker, postgres: PostgresServer, name: str, tmp_path: Path
) -> None:
    postgres.run(SCHEMA, "INSERT INTO goods (id, name) SELECT i, 'n' || i FROM generate_series(1, 60000) i")
    worker = worker_of(broker.bootstrap_servers, name, environment=SECRET)
    settings = source_settings(postgres, name, snapshot__fetch__size="100", batch__max__rows="100")
    create(worker, name, settings)
    topic = f"{name}.public.goods"
    wait_until(lambda: "created topic" in worker.log.read_text(), 60, "the snapshot has begun")
    wait_until(lambda: end(broker.bootstrap_servers, topic) > 300, 60, "rows arrive")
    worker.kill()
    before = len(committed(broker.bootstrap_servers, topic))
    assert before < 60_000, "it was interrupted"
    postgres.run("DELETE FROM goods WHERE id = 60000", "INSERT INTO goods (id) VALUES (60001)")
    worker.start()
    wait_until(lambda: len(committed(broker.bootstrap_servers, topic)) >= 60_003, 120, "all rows arrive")
    records = committed(broker.bootstrap_servers, topic)
    read = [
        json.loads(value)["payload"]["after"]["id"]
        for _, value in records
        if value is not None and json.loads(value)["payload"]["op"] == "r"
    ]
    assert len(read) == len(set(read)) and set(read) == {*range(1, 60_000), 60_001}
