"""`tidelog sql` in a shell: rows without Spark's start messages, also where their reader goes away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from tests.unit.cli.commands import TIDELOG
from tidelog import Producer

NOISE = ("WARN", "log4j", "incubator", "Setting default log level", "tidelog/cli")
ROWS = 30_000  # more than a pipe holds


def test_a_query_prints_its_rows_without_noise(bootstrap: str, topic: Callable[..., str]) -> None:
    source = topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(ROWS):
            producer.send(source, b"value-%d" % number)
        producer.flush()
    env = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    # Without a master, a query as simple as this needs no Spark.
    words = [
        TIDELOG,
        "sql",
        "--master",
        "local[2]",
        "--bootstrap",
        bootstrap,
        "-e",
        f"SELECT value FROM `{source}`",
    ]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "VALUE\n"
        process.stdout.close()
        messages = process.stderr.read()
        assert process.wait(300) == 0
    # A worker that plans a read may still say that Spark went away before it: Spark starts it, and its daemon is not ours.
    assert not [words for words in NOISE if words in messages], messages
