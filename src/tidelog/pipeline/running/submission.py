"""The call of spark-submit for an application."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tidelog.pipeline.running.apps import App


def submission(
    app: App, home: str, master: str, until_done: bool, words: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """The command, and what its environment needs; the driver runs here, the executors on the cluster."""
    from pyspark.find_spark_home import _find_spark_home

    from tidelog.pipeline.running import submitted
    from tidelog.pipeline.streams.session import SETTINGS

    spark_home = _find_spark_home()
    command = [os.path.join(spark_home, "bin", "spark-submit"), "--master", master, "--name", app.name]
    for key, value in {**SETTINGS, **app.settings}.items():
        command += ["--conf", f"{key}={value}"]
    command += [*words, submitted.__file__]
    command.append(json.dumps({"app": asdict(app), "home": home, "until_done": until_done}))
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return command, {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": spark_home,
    }
