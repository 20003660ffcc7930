"""The committed messages are what the generator makes of the table, and the table is what Kafka's jars say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.broker.routes import ROUTES
from tidelog.wire.apis import APIS
from tools.wire import extract, generate
from tools.wire.schema import DEFINITIONS, load

MESSAGES = load()
JARS = os.environ.get("TIDELOG_KAFKA_JARS")
JAR_NAMES = ("clients", "group-coordinator", "share-coordinator", "transaction-coordinator", "storage")


def test_the_committed_files_are_what_the_generator_writes() -> None:
    texts = generate.files()
    differing = [path.name for path, text in texts.items() if path.read_text() != text]
    assert not differing, "run tools/wire/generate.py"
    committed = {path for path in (generate.WIRE / "messages").glob("*.py") if path.name != "__init__.py"}
    assert committed == {path for path in texts if path.parent.name == "messages"}


def test_a_module_of_messages_has_an_importer_or_is_planned() -> None:
    imported = generate.imported()
    assert not imported & generate.PLANNED, "these have an importer now: take them off PLANNED"
    assert imported | generate.PLANNED <= {message.module for message in MESSAGES}, "no such message"
    assert {route.message for route in ROUTES.values()} <= imported


@pytest.mark.kafka
@pytest.mark.skipif(JARS is None, reason="TIDELOG_KAFKA_JARS does not name a folder with Apache Kafka's jars")
def test_the_table_is_what_apache_kafkas_jars_say() -> None:
    jars = [next(Path(JARS or "").glob(f"kafka-{name}-[0-9]*.jar")) for name in JAR_NAMES]
    definitions = [one for jar in jars for one in extract.definitions_in(jar)]
    assert DEFINITIONS.read_text() == extract.table_of(definitions)


def test_the_table_of_apis_has_every_request_with_its_versions() -> None:
    requests = {message.key: message for message in MESSAGES if message.kind == "request"}
    assert set(APIS) == set(requests)
    assert len(APIS) == 89
    for key, api in APIS.items():
        assert (api.min, api.max) == (requests[key].versions.low, requests[key].versions.high)
        assert api.module == requests[key].module


def test_request_and_response_of_an_api_have_the_same_versions() -> None:
    for api in APIS.values():
        module = generate.module_of(api.module)
        for suffix in ("Request", "Response"):
            kind = getattr(module, api.name + suffix)
            assert (api.key, api.flexible_from) == (kind.API_KEY, kind.FLEXIBLE_FROM)
            assert (api.min, api.max) == kind.VERSIONS


def test_only_one_api_has_a_newest_version_that_is_not_final() -> None:
    assert [(api.name, api.max, api.stable_max) for api in APIS.values() if api.unstable] == [
        ("InitProducerId", 6, 5)
    ]


def test_importing_the_package_imports_no_message() -> None:
    code = (
        "import sys, tidelog.wire.frame; print([m for m in sys.modules if m.startswith('tidelog.wire.mess')])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
