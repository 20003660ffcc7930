"""Statements and clauses that people bring from ksqlDB and Flink: what they are called here.  Pure.

What has the same meaning is understood (`properties_of`); the rest is answered with the words to use instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

CONNECTORS = (
    "connectors are no statements here: `tidelog connect` runs them, and its REST API creates, lists and deletes them "
    "(POST /connectors)"
)
STATEMENTS: dict[str, str] = {
    "CREATE CONNECTOR": CONNECTORS,
    "CREATE SOURCE CONNECTOR": CONNECTORS,
    "CREATE SINK CONNECTOR": CONNECTORS,
    "DROP CONNECTOR": CONNECTORS,
    "SHOW CONNECTORS": CONNECTORS,
    "LIST CONNECTORS": CONNECTORS,
    "DESCRIBE CONNECTOR": CONNECTORS,
    "CREATE TYPE": "types have no names here: write STRUCT<...> in the column",
    "CREATE VIEW": "a view is a WITH name AS (...) in front of the query, or CREATE STREAM name AS SELECT ...",
    "CREATE TEMPORARY": "a view is a WITH name AS (...) in front of the query, or CREATE STREAM name AS SELECT ...",
    "CREATE FUNCTION": "functions are Python here: Pipeline(...).stream(...).map(function); see the guide to pipelines",
    "CREATE DATABASE": "there is one catalog, and every topic is in it: leave CREATE DATABASE out",
    "CREATE CATALOG": "there is one catalog, and every topic is in it: leave CREATE CATALOG out",
    "USE": "there is one catalog, and every topic is in it: leave USE out",
    "RUN SCRIPT": "a script is run with `tidelog sql -f FILE`, or for good with `tidelog pipeline run FILE`",
    "EXECUTE STATEMENT": "all statements of a file run together: `tidelog pipeline run FILE`",
    "BEGIN STATEMENT": "all statements of a file run together: `tidelog pipeline run FILE`",
    "PAUSE": "a query does not rest: TERMINATE it; CREATE OR REPLACE ... AS SELECT goes on from its checkpoint",
    "RESUME": "CREATE OR REPLACE ... AS SELECT with the same query goes on from its checkpoint",
    "SHOW FUNCTIONS": "the functions are those of Spark SQL",
    "LIST FUNCTIONS": "the functions are those of Spark SQL",
    "SHOW PROPERTIES": "SET name = value changes a setting of Spark; `tidelog configs` has those of topics and brokers",
    "UNSET": "SET name = value changes a setting for this command only: leave UNSET out",
    "DEFINE": "there are no variables: the shell that calls `tidelog sql -e` has them",
    "UPDATE": "records do not change: INSERT INTO a table a row with the same key, which replaces the older row",
    "DELETE": "records do not change: a record with a key and without a value deletes a row of a table (`tidelog produce`)",
    "MERGE": "records do not change: INSERT INTO a table a row with the same key, which replaces the older row",
    "INSERT OVERWRITE": "a topic cannot be overwritten: INSERT INTO adds records",
    "ASSERT": "DESCRIBE name or SHOW TOPICS show what exists; --json prints it for scripts",
    "SPOOL": "the shell of the system writes files: tidelog sql -e '...' > FILE",
}
WINDOWS = ("TUMBLING", "HOPPING", "SESSION")
FUNCTIONS = {"LATEST_BY_OFFSET": "max_by", "EARLIEST_BY_OFFSET": "min_by"}
COLUMNS = {
    "rowtime": "_timestamp",
    "rowpartition": "_partition",
    "rowoffset": "_offset",
    "windowstart": "window.start",
    "windowend": "window.end",
}
PROPERTY_NAMES = {"kafka_topic": "topic", "value_format": "format", "scan.startup.mode": "starting"}
STARTING = {"earliest-offset": "earliest", "latest-offset": "latest"}
ANSWERED_PROPERTIES = {
    "key_format": "the key of a record is text: leave key_format out",
    "properties.bootstrap.servers": "the broker is that of the command: leave properties.bootstrap.servers out",
    "properties.group.id": "a continuous query keeps its offsets in its checkpoint: leave properties.group.id out",
}


class Answer(NamedTuple):
    text: str
    at: int  # the token that it is about


def statement_answer(words: Sequence[str]) -> Answer | None:
    """`words`: the texts of the statement's tokens, in capitals."""
    for length in (3, 2, 1):
        text = STATEMENTS.get(" ".join(words[:length]))
        if text is not None:
            return Answer(text, 0)
    return None


def clause_answer(words: Sequence[str]) -> Answer | None:
    """About the first clause of a query that is said in another way here."""
    for at, word in enumerate(words):
        behind = words[at + 1 :]
        if word == "WINDOW" and behind[:1] and behind[0] in WINDOWS:
            return Answer(_window(behind[0], behind[1:]), at)
        if (
            word in ("TUMBLE", "HOP", "CUMULATE", "SESSION")
            and behind[:1] == ["("]
            and "DESCRIPTOR" in behind[:8]
        ):
            return Answer(
                "a window is a function in GROUP BY: window(at, '5 minutes'), session_window(at, '30 minutes')",
                at,
            )
        if word == "WITHIN" and len(behind) > 1 and behind[0].isdigit():
            span = f"INTERVAL {behind[0]} {behind[1]}"
            text = f"the condition has both times: ON ... AND b.at BETWEEN a.at - {span} AND a.at + {span}"
            return Answer(text, at)
        if word == "SYSTEM_TIME" and behind[:1] == ["AS"]:
            return Answer(
                "a join with a table reads the table's current rows: leave FOR SYSTEM_TIME AS OF out", at
            )
        if word == "MATCH_RECOGNIZE":
            return Answer(
                "patterns of rows are code: Pipeline(...).stream(...).key_by(...).process(function)", at
            )
    return None


def _window(kind: str, words: Sequence[str]) -> str:
    """A window of ksqlDB: TUMBLING (SIZE 1 HOUR), HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES), SESSION (30 MINUTES)."""
    numbers = [f"'{word} {words[at + 1].lower()}'" for at, word in enumerate(words[:-1]) if word.isdigit()]
    spans = numbers[: 2 if kind == "HOPPING" else 1] or ["'5 minutes'"]
    name = "session_window" if kind == "SESSION" else "window"
    return f"a window is a function in GROUP BY: GROUP BY ..., {name}(at, {', '.join(spans)}); window.start is its begin"


def properties_of(given: Mapping[str, str]) -> dict[str, str]:
    """The properties by the names that they have here.  Raises ValueError with the words to use instead."""
    properties: dict[str, str] = {}
    for raw, value in given.items():
        if raw in ANSWERED_PROPERTIES:
            raise ValueError(ANSWERED_PROPERTIES[raw])
        if raw == "connector":
            if value.lower() not in ("kafka", "upsert-kafka"):
                raise ValueError(
                    f"streams and tables are topics, not of {value!r}: `tidelog connect` moves records from and to it"
                )
            continue
        name = PROPERTY_NAMES.get(raw, raw)
        if name in properties:
            raise ValueError(f"{name} is given twice, as {properties[name]!r} and {value!r}")
        if name == "starting":
            value = STARTING.get(value.lower(), value)
        if raw == "value_format" and value.upper() == "KAFKA":
            value = "text"
        properties[name] = value
    return properties
