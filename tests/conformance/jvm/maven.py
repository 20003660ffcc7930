"""Jars of Apache Kafka that tests run: in a folder that a variable names, or in `.jars/` of the repository, where Maven puts
them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.conformance.apache_kafka import VERSION

SECONDS_MAX = 300


class JarFolder(NamedTuple):
    """`artifacts`: of org.apache.kafka, the first of which shows that the folder is complete."""

    name: str
    variable: str
    artifacts: Sequence[str]

    @property
    def path(self) -> Path:
        named = os.environ.get(self.variable)
        return Path(named) if named else Path(__file__).parents[3] / ".jars" / f"{self.name}-{VERSION}"

    def resolve(self) -> str | None:
        """Have the jars; the reason when that is impossible."""
        if shutil.which("java") is None or shutil.which("javac") is None:
            return "a JDK of Java 17 or newer is not installed (java and javac)"
        if list(self.path.glob(f"{self.artifacts[0]}-*.jar")):
            return None
        if os.environ.get(self.variable) or shutil.which("mvn") is None:
            return f"no {self.artifacts[0]} in {self.path}, and Maven (mvn) is not there to fetch it"
        return self._fetch()

    def _fetch(self) -> str | None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent) as work:
            (Path(work) / "pom.xml").write_text(self._pom())
            goal = [
                "dependency:copy-dependencies",
                f"-DoutputDirectory={work}/jars",
                "-DincludeScope=runtime",
            ]
            fetched = subprocess.run(
                ["mvn", "-q", "-B", "-f", f"{work}/pom.xml", *goal],
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
            )
            if fetched.returncode:
                return (
                    f"Maven could not resolve {', '.join(self.artifacts)} {VERSION}: {fetched.stdout[-2000:]}"
                )
            if not self.path.exists():
                (Path(work) / "jars").rename(self.path)
        return None

    def _pom(self) -> str:
        rows = "".join(
            f"<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{VERSION}</version></dependency>"
            for artifact in self.artifacts
        )
        return (
            "<project><modelVersion>4.0.0</modelVersion><groupId>tests</groupId>"
            f"<artifactId>{self.name}</artifactId><version>1</version><packaging>pom</packaging>"
            f"<dependencies>{rows}</dependencies></project>"
        )


STREAMS = JarFolder("kafka-streams", "TIDELOG_STREAMS_JARS", ("kafka-streams",))
CONNECT = JarFolder(
    "kafka-connect",
    "TIDELOG_CONNECT_JARS",
    ("connect-runtime", "connect-mirror", "connect-file", "connect-json"),
)
