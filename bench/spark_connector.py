"""Spark's own Kafka connector, to compare with: its jars through Maven, once.

The newest connector may lack a jar on some mirrors; these versions run on Spark 4.2 and 4.3."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

JARS = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13": "4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "4.0.0",
    "org.apache.kafka:kafka-clients": "3.9.2",
    "org.apache.commons:commons-pool2": "2.12.0",
}
FOLDER = Path(__file__).parents[1] / ".jars" / "spark-kafka"


def jars() -> list[Path]:
    return sorted(FOLDER.glob("*.jar"))


def resolve() -> str | None:
    """Has the jars; the reason when that is impossible."""
    if len(jars()) >= len(JARS):
        return None
    if shutil.which("mvn") is None:
        return "Maven (mvn) is not installed"
    FOLDER.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as work:
        for name, version in JARS.items():
            # One by one: what the connector's own pom names is not all to be had, nor needed.
            goal = ["dependency:copy", f"-Dartifact={name}:{version}", f"-DoutputDirectory={work}/jars"]
            done = subprocess.run(["mvn", "-q", "-B", *goal], capture_output=True, text=True, cwd=work)
            if done.returncode:
                return f"Maven could not find {name} {version}: {done.stdout[-500:]}"
        shutil.rmtree(FOLDER, ignore_errors=True)
        (Path(work) / "jars").rename(FOLDER)
    return None
