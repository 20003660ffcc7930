"""The spark-submit command of an application."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from tidelog.pipeline.running.apps import App


def submission(app: App, home: str) -> tuple[list[str], dict[str, str]]:
    """The command and its environment variables; the driver runs on this machine, the executors on the cluster."""
    from pyspark.find_spark_home import _find_spark_home

    from tidelog.pipeline.running import submitted
    from tidelog.pipeline.streams.session import SETTINGS

    spark_home = _find_spark_home()
    assert app.master is not None and app.submitted is not None
    command = [os.path.join(spark_home, "bin", "spark-submit"), "--master", app.master, "--name", app.name]
    for key, value in {**SETTINGS, **app.settings}.items():
        command += ["--conf", f"{key}={value}"]
    command += [*app.submitted, submitted.__file__]
    command.append(json.dumps({"app": asdict(app), "home": home}))
    python = os.environ.get("PYSPARK_PYTHON", sys.executable)
    return command, {
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": spark_home,
    }
