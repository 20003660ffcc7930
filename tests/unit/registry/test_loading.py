"""A broker that nobody asks for schemas has not loaded anything for them."""

from __future__ import annotations

import subprocess
import sys

LAZY = [
    *(
        "tidelog.registry.state",
        "tidelog.registry.decisions",
        "tidelog.registry.avro",
        "tidelog.gateways.registry",
    ),
    *("fastavro", "jsonschema_rs", "google.protobuf", "starlette", "uvicorn"),
]


def test_starting_a_broker_loads_no_parser_and_no_state() -> None:
    code = f"""
import sys
import tidelog.app.lifecycle
print(*(name for name in {LAZY!r} if name in sys.modules))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and not shown.stdout.split(), (shown.stdout, shown.stderr)


def test_one_format_does_not_load_the_others() -> None:
    code = """
import sys
from tidelog.registry.formats import Formats
from tidelog.registry.schema import Schema
Formats().parse(Schema('"string"'), {})
print(*(name for name in ("jsonschema_rs", "google.protobuf", "fastavro") if name in sys.modules))
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and not shown.stdout.split(), (shown.stdout, shown.stderr)
