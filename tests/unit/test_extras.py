"""An installation without extras runs a broker; what needs an extra says which one to install."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tidelog.extras import PACKAGES

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None  # importing it raises ModuleNotFoundError, as if it were not installed
"""
HIDDEN = (*PACKAGES, "pyarrow", "pyspark", "pandas", "numpy", "sqlglot", "prompt_toolkit")

BROKER = """
from tidelog import Consumer, Producer
from tidelog.testing import broker

with broker() as b:
    with Producer(bootstrap_servers=b.bootstrap_servers, compression_type="zstd") as producer:
        producer.send("orders", b"2 pears").get(timeout=20)
    with Consumer("orders", bootstrap_servers=b.bootstrap_servers, auto_offset_reset="earliest", group_id="g") as consumer:
        print(next(iter(consumer)).value)
"""

MESSAGES = [
    (
        "from tidelog.schema import Avro, Registry; Avro(registry=Registry('http://127.0.0.1:1'))",
        "Avro schemas need fastavro, which is not installed here: pip install 'tidelog[schema]'",
    ),
    (
        "from tidelog.registry.formats import Formats; from tidelog.registry.schema import Schema\n"
        "assert Formats().parse(Schema('\"string\"'), {})\n"  # Avro in the registry needs no extra
        "Formats().parse(Schema('{}', 'JSON'), {})",
        "JSON schemas need jsonschema-rs, which is not installed here: pip install 'tidelog[schema]'",
    ),
    (
        "from tidelog.registry.formats import Formats; from tidelog.registry.schema import Schema\n"
        "Formats().parse(Schema('message M {}', 'PROTOBUF'), {})",
        "Protobuf schemas need protobuf, which is not installed here: pip install 'tidelog[schema]'",
    ),
    (
        "from tidelog.gateways.rest.codec import codec_of; codec_of({'schema': '\"string\"'}, {})",
        "Avro schemas need fastavro, which is not installed here: pip install 'tidelog[schema]'",
    ),
    (
        "from tidelog.gateways.console.records.decoder import _protobuf; _protobuf({}, {})",
        "Protobuf schemas need protobuf, which is not installed here: pip install 'tidelog[schema]'",
    ),
    (
        "import tempfile, tidelog.cli\n"
        "folder = tempfile.mkdtemp()\n"
        "sys.argv = ['tidelog', 'serve', '--data', folder, '--listen', '127.0.0.1:0', '--http', '127.0.0.1:0',\n"
        "            '--metadata', 'etcd://127.0.0.1:1']\n"
        "tidelog.cli.main()",
        "Clusters, whose metadata is in etcd, need grpcio, which is not installed here: pip install 'tidelog[etcd]'",
    ),
    (
        "from types import SimpleNamespace; from tidelog.access.oauth import _public_key\n"
        "_public_key(SimpleNamespace(kty='RSA', numbers=(1, 1)))",
        "OAuth tokens need cryptography, which is not installed here: pip install 'tidelog[security]'",
    ),
    (
        "from tidelog.record.columns import RecordColumns; RecordColumns().record_batch()",
        "Arrow needs pyarrow: pip install 'tidelog[arrow]'",
    ),
]


def python(code: str) -> subprocess.CompletedProcess[str]:
    without = WITHOUT.format(hidden=HIDDEN)
    return subprocess.run([sys.executable, "-c", without + code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("code", "message"), MESSAGES, ids=[message.split(",")[0] for _, message in MESSAGES]
)
def test_what_is_missing_is_named_with_the_command_that_installs_it(code: str, message: str) -> None:
    shown = python(code)
    assert shown.returncode != 0
    assert shown.stderr.strip().splitlines()[-1].endswith(message), shown.stderr


def test_a_broker_a_producer_and_a_consumer_need_no_extra() -> None:
    shown = python(BROKER)
    assert shown.stdout == "b'2 pears'\n", shown.stderr


def test_the_packages_of_the_extras_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for distribution, extra in PACKAGES.values():
        assert [one for one in extras[extra] if one.startswith(f"{distribution}>=")], (distribution, extra)
        assert not [one for one in project["dependencies"] if one.startswith(distribution)]
