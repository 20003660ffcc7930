"""The process that compacts for a broker: `python -m tidelog.storage.compaction.worker BROKER_PID`.

Jobs come on stdin and answers go to stdout, one JSON object a line: a `CompactionJob`; then `{"rewritten": ...}` for every
group of segments, and `{"done": ...}` or `{"failed": ..., "damaged": ...}`.  It ends when stdin does, and with the broker.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, BinaryIO

from tidelog.errors import TidelogError
from tidelog.storage.compaction.compactor import Compactor
from tidelog.storage.compaction.io_pace import IoPace
from tidelog.storage.compaction.job import CompactionJob
from tidelog.storage.disk import Disk, SystemDisk
from tidelog.storage.encryption.worker_keys import disk_for_worker

_PR_SET_PDEATHSIG = 1
_NICENESS = 10


def serve(disk: Disk, jobs: BinaryIO, answers: BinaryIO) -> None:
    """Until `jobs` ends."""

    def answer(name: str, value: Any, **others: Any) -> None:
        answers.write(json.dumps({name: value, **others}).encode() + b"\n")
        answers.flush()

    for line in jobs:
        job = CompactionJob.from_plain(json.loads(line))
        pace = IoPace(job.io_bytes_per_second)
        compactor = Compactor(disk_for_worker(disk, job.data_keys, job.new_data_key), job, pace.used)
        try:
            for rewritten in compactor.run():
                answer("rewritten", rewritten)
        except TidelogError as problem:
            answer("failed", str(problem), damaged=True)
        except OSError as problem:
            answer("failed", str(problem), damaged=False, errno=problem.errno)
        else:
            answer("done", compactor.progress.as_plain())


def end_with(broker: int) -> None:
    """A worker without its broker would fill the disk with files that nobody swaps in."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != broker:
        sys.exit(0)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker decides when Ctrl-C is pressed in its terminal
    end_with(int(sys.argv[1]))
    os.nice(_NICENESS)
    disk = SystemDisk()
    try:
        serve(disk, sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        disk.close()


if __name__ == "__main__":
    main()
