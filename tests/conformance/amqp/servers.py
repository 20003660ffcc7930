"""The two servers that the suite runs on: Tidelog with an AMQP listener, and a RabbitMQ node of its own, from Debian's
package, on free ports and with folders of its own."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pika

from tests.conformance.process import BrokerProcess, free_port, free_ports
from tests.conformance.tidelog_broker import TidelogBroker

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_SECONDS_MAX = 120


class AmqpBroker(TidelogBroker):
    """`amqp_port` is kept over restarts, as the port for Kafka is."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self.port = free_port()
        self.amqp_port = free_port()

    def command(self) -> list[str]:
        listeners = f"PLAINTEXT://{self.bootstrap},AMQP://{self.host}:{self.amqp_port}"
        self.settings["listeners"] = listeners
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]


class RabbitMq(BrokerProcess):
    name = "rabbitmq"
    clean_exit_codes = frozenset({0})

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        super().__init__(home, settings)
        self.amqp_port = free_ports((0, 1, 2))

    def _environment(self) -> dict[str, str]:
        port = self.amqp_port
        return {
            **os.environ,
            "HOME": str(self.home),
            "RABBITMQ_NODENAME": f"tidelog{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": self.host,
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(port + 1),
            "ERL_EPMD_PORT": str(port + 2),
            "ERL_EPMD_ADDRESS": self.host,
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",  # it may be ended at once, before it notices that the node has
            "RABBITMQ_MNESIA_BASE": str(self.home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.home / "log"),
            "RABBITMQ_CONFIG_FILE": str(self.home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        }

    def start(self) -> None:
        assert SERVER.exists(), "RabbitMQ is missing: run tools/install-test-tools"
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "plugins").write_text("[].\n")
        lines = [f"{key} = {value}\n" for key, value in self.settings.items()]
        (self.home / "rabbitmq.conf").write_text("".join(lines))
        with (self.home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(SERVER)],
                cwd=self.home,  # a node that is ended in the middle dumps its tables there
                env=self._environment(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._answers():
            assert self.alive() and time.monotonic() < deadline, f"RabbitMQ does not start: {self.log_tail()}"
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            pika.BlockingConnection(pika.ConnectionParameters(self.host, self.amqp_port)).close()
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True

    def discard(self) -> None:
        super().discard()
        # Erlang's own daemon, of this node alone: it is found by its port.
        subprocess.run(
            ["epmd", "-kill"], env=self._environment(), check=False, capture_output=True, timeout=30
        )
