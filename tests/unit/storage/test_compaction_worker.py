"""Compaction in a process of its own: the same result, ended with its broker, killed without harm."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.unit.storage.compaction_files import (
    batch,
    cleaned_data,
    cleaned_records,
    compact,
    job_for,
    values,
    write_segments,
)
from tidelog.storage.compaction.job import Job, Progress, Rewritten
from tidelog.storage.compaction.runner import CompactionFailed, InlineRunner, ProcessRunner, Runner
from tidelog.storage.compaction.worker import serve
from tidelog.storage.disk import SystemDisk


@pytest.fixture
def disk() -> SystemDisk:
    return SystemDisk()


def job_in(disk: SystemDisk, folder: Path, segments: int = 3) -> Job:
    data = {
        base: batch(base, (b"a", b"%d" % base), (b"k%d" % base, b"1")) for base in range(0, 2 * segments, 2)
    }
    sources = write_segments(disk, str(folder), data)
    return job_for(str(folder), sources, 2 * segments, segment_bytes=sources[0].size)


async def collect(runner: Runner, job: Job) -> tuple[list[Rewritten], Progress]:
    groups = []
    async with aclosing(runner.run(job)) as answers:
        async for answer in answers:
            if isinstance(answer, Progress):
                return groups, answer
            groups.append(answer)
    raise AssertionError("a runner ends with its progress")


async def test_a_process_writes_the_same_files_as_the_disks_own_thread(
    disk: SystemDisk, tmp_path: Path
) -> None:
    runner = ProcessRunner()
    try:
        there = await collect(runner, job_in(disk, tmp_path / "there"))
        here = await collect(InlineRunner(disk), job_in(disk, tmp_path / "here"))
        assert there == here == compact(disk, job_in(disk, tmp_path / "direct"))
        for base in (0, 2, 4):
            assert cleaned_data(disk, str(tmp_path / "there"), base) == cleaned_data(
                disk, str(tmp_path / "here"), base
            )
        found = values(cleaned_records(disk, str(tmp_path / "there"), there[0]))
        assert sorted(found) == [1, 3, 4, 5]
    finally:
        await runner.close()


async def test_one_process_does_many_jobs_and_goes_when_there_are_none(
    disk: SystemDisk, tmp_path: Path
) -> None:
    runner = ProcessRunner(idle_s=0.05)
    pids = set()
    for number in range(3):
        await collect(runner, job_in(disk, tmp_path / str(number)))
        pids.add(runner.pid)
    assert len(pids) == 1
    process = runner._process
    assert process is not None
    assert await asyncio.wait_for(process.wait(), 30) == 0
    assert runner.pid is None
    await collect(runner, job_in(disk, tmp_path / "again"))
    assert runner.pid not in pids
    await runner.close()


async def test_jobs_of_several_directories_take_turns(disk: SystemDisk, tmp_path: Path) -> None:
    runner = ProcessRunner()
    jobs = [job_in(disk, tmp_path / str(number)) for number in range(4)]
    done = await asyncio.gather(*(collect(runner, job) for job in jobs))
    assert [progress.end for _, progress in done] == [6, 6, 6, 6]
    await runner.close()


@pytest.mark.parametrize("in_process", [True, False])
async def test_a_failed_job_is_told_and_the_process_goes_on(
    disk: SystemDisk, tmp_path: Path, in_process: bool
) -> None:
    runner: Runner = ProcessRunner() if in_process else InlineRunner(disk)
    damaged = job_in(disk, tmp_path / "damaged")
    disk.open(str(tmp_path / "damaged" / "00000000000000000002.log")).write(b"\xff", 70)
    with pytest.raises(CompactionFailed, match="damaged batch at offset 2") as caught:
        await collect(runner, damaged)
    assert caught.value.damaged
    missing = job_in(disk, tmp_path / "missing")
    disk.remove(str(tmp_path / "missing" / "00000000000000000004.log"))
    with pytest.raises(CompactionFailed, match="No such file") as caught:
        await collect(runner, missing)
    assert not caught.value.damaged
    assert (await collect(runner, job_in(disk, tmp_path / "good")))[1].end == 6
    await runner.close()


async def test_a_killed_process_fails_its_job_and_the_next_one_gets_a_new_process(
    disk: SystemDisk, tmp_path: Path
) -> None:
    runner = ProcessRunner()
    await collect(runner, job_in(disk, tmp_path / "first"))
    assert runner.pid is not None
    os.kill(runner.pid, signal.SIGKILL)
    with pytest.raises(CompactionFailed) as caught:
        await collect(runner, job_in(disk, tmp_path / "second"))
    assert not caught.value.damaged
    assert (await collect(runner, job_in(disk, tmp_path / "third")))[1].end == 6
    await runner.close()


async def test_giving_up_in_the_middle_ends_the_process(disk: SystemDisk, tmp_path: Path) -> None:
    runner = ProcessRunner()
    answers: AsyncIterator[Rewritten | Progress] = runner.run(job_in(disk, tmp_path / "long", segments=50))
    assert isinstance(await anext(answers), Rewritten)
    process = runner._process
    assert process is not None
    await answers.aclose()  # type: ignore[attr-defined]
    assert process.returncode is not None
    assert runner.pid is None


def test_a_worker_does_not_outlive_its_broker(tmp_path: Path) -> None:
    worker = [sys.executable, "-m", "tidelog.storage.compaction.worker"]
    broker = f"import os, subprocess, sys; p = subprocess.Popen({worker!r} + [str(os.getpid())], stdin=0); p.wait()"
    reading, writing = os.pipe()
    parent = subprocess.Popen([sys.executable, "-c", broker], stdin=reading, stdout=subprocess.PIPE)
    os.close(reading)
    # The answer shows that the worker is up; its stdin stays open, so only its broker's death can end it.
    disk = SystemDisk()
    os.write(writing, json.dumps(job_in(disk, tmp_path / "log").as_plain()).encode() + b"\n")
    assert parent.stdout is not None
    assert parent.stdout.readline().startswith(b'{"rewritten"')
    parent.kill()
    rest = parent.stdout.read()  # ends when nobody holds the other end any more: the worker is gone
    assert rest.endswith(b"}\n") or rest == b""
    parent.wait()
    os.close(writing)


def test_a_worker_started_by_nobody_it_knows_ends_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidelog.storage.compaction.worker", "1"],
        input=b"",
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_worker_speaks_one_object_a_line(disk: SystemDisk, tmp_path: Path) -> None:
    jobs = io.BytesIO(json.dumps(job_in(disk, tmp_path / "log").as_plain()).encode() + b"\n")
    answers = io.BytesIO()
    serve(disk, jobs, answers)
    lines = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [next(iter(line)) for line in lines] == ["rewritten", "rewritten", "rewritten", "done"]
    assert lines[-1]["done"]["records_kept"] == 4
