"""Apache Kafka's own classes agree with ours on every message and version; needs its jars and a Java 17."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.property.wire.examples import CASES, class_of, make

JARS = os.environ.get("TIDELOG_KAFKA_JARS")
EXAMPLES = 12


@pytest.mark.kafka
@pytest.mark.skipif(JARS is None, reason="TIDELOG_KAFKA_JARS does not name a folder with Apache Kafka's jars")
def test_apache_kafka_reads_what_we_write_and_writes_it_back_unchanged() -> None:
    java = shutil.which("java")
    assert java is not None, "Apache Kafka's jars are there, but no java to run them"
    lines = []
    for message, version in CASES:
        made = [make(Random(f"{message.name} {version} {n}"), message, version) for n in range(EXAMPLES)]
        for one in [class_of(message)(), *made]:
            lines.append(f"{message.name} {version} {one.encode(version).hex()}")
    command = [java, "-cp", f"{JARS}/*", str(Path(__file__).parent / "Oracle.java")]
    answer = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=True, timeout=240
    )
    answers = answer.stdout.splitlines()
    assert len(answers) == len(lines)
    wrong = [line for line, again in zip(lines, answers, strict=True) if line.split(" ")[2] != again]
    assert not wrong
