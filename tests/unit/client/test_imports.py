"""What `import tidelog` does not load, and which thread loads what takes long."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "asyncio",
    "fastavro",
    "google",
    "grpc",
    "jsonschema_rs",
    "numpy",
    "pyarrow",
    "pyspark",
    "ssl",
    "starlette",
)


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_itself_loads_nothing_heavy() -> None:
    assert python(f"import sys, tidelog; print([one for one in {HEAVY!r} if one in sys.modules])") == "[]"


def test_clients_load_nothing_of_arrow_schemas_or_the_broker() -> None:
    # asyncio and what it needs are all that a client needs.
    heavy = [module for module in HEAVY if module not in ("asyncio", "ssl")] + [
        "tidelog.broker",
        "tidelog.storage",
    ]
    code = f"""
import sys
from tidelog import Admin, Consumer, Producer, ShareConsumer
import tidelog.aio
print([one for one in {heavy!r} if one in sys.modules])
"""
    assert python(code) == "[]"


WHERE = """
import sys, threading

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "pyarrow":
            print(threading.current_thread().name)

sys.meta_path.insert(0, Watch())
from tidelog.testing import broker

with broker() as running:
    {use}
"""
BLOCKING = """
    from tidelog import Consumer
    with Consumer("t", bootstrap_servers=running.bootstrap_servers) as consumer:
        consumer.poll_arrow(10)
"""
ASYNCIO = """
    import asyncio
    from tidelog.aio import Consumer

    async def main():
        threading.current_thread().name = "loop"
        async with Consumer("t", bootstrap_servers=running.bootstrap_servers) as consumer:
            await consumer.poll_arrow(10)

    asyncio.run(main())
"""


def test_pyarrow_is_not_loaded_on_the_loops_thread() -> None:
    """It takes a second or more, in which heartbeats would wait."""
    assert python(WHERE.format(use=BLOCKING.strip())) not in ("", "tidelog-client")
    assert python(WHERE.format(use=ASYNCIO.strip())) not in ("", "loop")


def test_columns_load_no_pandas() -> None:
    """pyarrow loads it for some calls, where it is installed."""
    code = """
import sys, pyarrow
from tidelog.testing import broker
from tidelog import Consumer, Producer

with broker() as running:
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        ends = pyarrow.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0]))
        value = pyarrow.Array.from_buffers(pyarrow.binary(), 1, [None, ends, pyarrow.py_buffer(b"x")])
        producer.send_batch("t", pyarrow.RecordBatch.from_arrays([value], names=["value"])).get(30)
    with Consumer("t", bootstrap_servers=running.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        while not (batch := consumer.poll_arrow(1_000)).num_rows:
            pass
print(batch.num_rows, "pandas" in sys.modules)
"""
    assert python(code) == "1 False"
