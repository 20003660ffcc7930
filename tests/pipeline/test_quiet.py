"""`tidelog sql` in a shell: nothing but rows, also where their reader goes away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

from tests.unit.cli.commands import TIDELOG
from tidelog import Producer

ROWS = 30_000  # more than a pipe holds


def test_a_query_prints_its_rows_and_nothing_else(bootstrap: str, topic: Callable[..., str]) -> None:
    source = topic()
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(ROWS):
            producer.send(source, b"value-%d" % number)
        producer.flush()
    env = {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
    words = [TIDELOG, "sql", "--bootstrap", bootstrap, "-e", f"SELECT value FROM `{source}`"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "VALUE\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(300) == 0
