"""Apache Kafka from its published jars: a broker to hold the suite against, and its command line tools.

The jars are in the folder that `TIDELOG_KAFKA_JARS` names, or in `.jars/` of the repository, where
`resolve_jars` puts them with Maven.  Everything listens on loopback only.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.process import BrokerProcess, free_port, wait_until

VERSION = "4.3.1"
READY_SECONDS_MAX = 180
START_ATTEMPTS_MAX = 3

# A small JVM that starts quickly; nothing here measures speed.
JVM = ("-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.awt.headless=true")

LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"

# kafka_2.13 is the broker and kafka-tools the command line; their poms name no logging back end.
POM = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>apache-kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>2.25.4</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId>
      <version>2.25.4</version></dependency>
  </dependencies>
</project>
"""

TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}


def jar_folder() -> Path:
    named = os.environ.get("TIDELOG_KAFKA_JARS")
    return Path(named) if named else Path(__file__).parents[2] / ".jars" / f"kafka-{VERSION}"


def missing() -> str | None:
    """Why nothing of Apache Kafka can run here, or None."""
    if shutil.which("java") is None:
        return "Java 17 or newer is not installed"
    if not list(jar_folder().glob("kafka_2.13-*.jar")):
        return f"no Apache Kafka jars in {jar_folder()}: `make conformance-kafka` resolves them with Maven"
    return None


def resolve_jars() -> str | None:
    """Have the jars, through Maven if need be; the reason when that is impossible."""
    if missing() is None or os.environ.get("TIDELOG_KAFKA_JARS") or shutil.which("java") is None:
        return missing()
    if shutil.which("mvn") is None:
        return "Maven (mvn) is not installed, and there are no Apache Kafka jars"
    folder = jar_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several pytest workers ask at once
        if missing() is None:
            return None
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            (Path(work) / "pom.xml").write_text(POM)
            goal = [
                "dependency:copy-dependencies",
                f"-DoutputDirectory={work}/jars",
                "-DincludeScope=runtime",
            ]
            done = subprocess.run(
                ["mvn", "-q", "-B", "-f", f"{work}/pom.xml", *goal], capture_output=True, text=True
            )
            if done.returncode:
                return f"Maven could not resolve Apache Kafka {VERSION}: {done.stdout[-2000:]}"
            (Path(work) / "jars").rename(folder)
    return missing()


def java(
    main_class: str, *arguments: str, stdin: str | None = None, seconds: float = 120
) -> subprocess.CompletedProcess[str]:
    command = [*_jvm(main_class), *arguments]
    return subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=seconds)


def _jvm(main_class: str) -> list[str]:
    return ["java", *JVM, LOGGING, "-Dtests.level=warn", "-cp", f"{jar_folder()}/*", main_class]


def command(name: str) -> list[str]:
    """What starts one of Kafka's command line tools, for those that run on."""
    return _jvm(TOOLS[name])


def tool(name: str, *arguments: str, stdin: str | None = None) -> str:
    """The standard output of one of Kafka's command line tools, which must succeed."""
    done = java(TOOLS[name], *arguments, stdin=stdin)
    assert done.returncode == 0, f"kafka-{name} {arguments} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


class KafkaBroker(BrokerProcess):
    """One combined broker and controller (KRaft), formatted before the first start."""

    name = "kafka"
    jvm: tuple[str, ...] = JVM
    # A JVM that ended on SIGTERM says so with 143.
    clean_exit_codes = frozenset({0, 143})

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        super().__init__(home, dict(settings))
        self._controller_port = 0

    def start(self) -> None:
        """Returns when the broker answers clients.  Another process may take a free port first: then once more."""
        self.home.mkdir(parents=True, exist_ok=True)
        first = self._controller_port == 0
        for _ in range(START_ATTEMPTS_MAX):
            if first:
                self.port, self._controller_port = free_port(), free_port()
            self._write_properties()
            if first:
                self._format()
            self._launch()
            if self._await_ready() or not first:
                break
        assert self.alive(), f"Apache Kafka did not start: {self.log_tail()}"

    def _write_properties(self) -> None:
        listeners = f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self._controller_port}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, self.folders)),
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Background work begins at once instead of half a minute after the start.
            "log.initial.task.delay.ms": "100",
            "log.cleaner.dedupe.buffer.size": "4194304",
            # A killed broker may register again only after this.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **self.settings,
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (self.home / "server.properties").write_text(text)

    def _format(self) -> None:
        if (self.data / "meta.properties").exists():
            return
        properties = str(self.home / "server.properties")
        done = java("kafka.tools.StorageTool", "format", "-t", "tTidelogConformanceAAA", "-c", properties)
        assert done.returncode == 0, done.stdout + done.stderr

    def _launch(self) -> None:
        options = [*self.jvm, LOGGING, "-Dtests.level=info"]
        command = ["java", *options, "-cp", f"{jar_folder()}/*", "kafka.Kafka"]
        with (self.home / "broker.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, str(self.home / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _await_ready(self) -> bool:
        log = self.home / "broker.log"

        def settled() -> bool:
            return not self.alive() or b"Kafka Server started" in log.read_bytes()

        wait_until(settled, READY_SECONDS_MAX, "Apache Kafka started", every=0.1)
        return self.alive()
