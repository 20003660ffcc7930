"""A PostgreSQL server of the Debian package: its own folder, a free port of the loopback interface, the user postgres."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from tests.conformance.process import free_port, wait_until

BINARIES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/lib/postgresql"))
PASSWORD = "pears and melons"
SETTINGS = {
    "wal_level": "logical",
    "fsync": "off",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "wal_sender_timeout": "10s",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
}


class PostgresServer:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tidelog-postgres-", dir="/tmp"))
        self.data = self.folder / "data"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        # A server refuses to run as root.
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        password = self.folder / "password"
        password.write_text(PASSWORD)
        command = [
            BINARIES / "initdb",
            "-D",
            self.data,
            "-U",
            "postgres",
            "-A",
            "scram-sha-256",
            "-E",
            "UTF8",
        ]
        command += ["--locale=C", "--no-sync", "--pwfile", password]
        password.chmod(0o644)
        subprocess.run(command, check=True, capture_output=True, cwd="/", **self._user)

    def start(self) -> None:
        settings = {**SETTINGS, "port": str(self.port)}
        command = [str(BINARIES / "postgres"), "-D", str(self.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._user)
        wait_until(self._answers, 60, "PostgreSQL answers")

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def connect(self, **more: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=PASSWORD,
            dbname="postgres",
            autocommit=True,
            **more,
        )

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """All of its processes at once; the next start recovers."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(60)

    def discard(self) -> None:
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)
