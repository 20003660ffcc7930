"""kafka-python and aiokafka log in with Kerberos.  Their package gssapi is Debian's, so they run in Debian's Python."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance import kerberos_worker
from tests.conformance.conftest import ON_KAFKA
from tests.conformance.kdc import Kdc
from tests.conformance.process import free_port
from tests.conformance.test_kerberos import KerberosBroker

pytestmark = [
    pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka is set up without a KDC"),
    pytest.mark.xdist_group("kerberos"),
]

PYTHON = "/usr/bin/python3"
PACKAGES = ("kafka", "aiokafka", "async_timeout", "packaging", "typing_extensions")
SECONDS = 120


@pytest.fixture(scope="module")
def broker(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosBroker]:
    broker = KerberosBroker(tmp_path_factory.mktemp("broker"), {})
    broker.port, broker.keytab = free_port(), kdc.keytab("kafka/localhost")
    broker.start()
    yield broker
    assert broker.alive(), broker.log_tail()
    broker.stop()


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clients alone: nothing else of our environment may be seen by another Python."""
    folder = tmp_path_factory.mktemp("packages")
    for name in PACKAGES:
        specification = importlib.util.find_spec(name)
        assert specification is not None and specification.origin is not None
        source = Path(specification.origin)
        source = source.parent if source.name == "__init__.py" else source
        (folder / source.name).symlink_to(source)
    return folder


@pytest.mark.parametrize("library", ["kafka", "aiokafka"])
def test_a_client_in_python_logs_in_with_the_tickets_of_kinit(
    kdc: Kdc, broker: KerberosBroker, packages: Path, library: str
) -> None:
    cache = kdc.tickets("alice", kdc.keytab("alice", f"{library}.keytab"))

    def written_and_read(tickets: Path) -> subprocess.CompletedProcess[str]:
        command = [PYTHON, str(Path(kerberos_worker.__file__)), library, f"localhost:{broker.port}"]
        return subprocess.run(
            [*command, f"by-{library}", f"hello of {library}"],
            env={**os.environ, "KRB5CCNAME": f"FILE:{tickets}", "PYTHONPATH": str(packages)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    done = written_and_read(cache)
    assert done.stdout == f"read hello of {library}\n", done.stderr
    without = written_and_read(kdc.home / "none.cache")
    assert without.returncode != 0 and not without.stdout, without.stderr
