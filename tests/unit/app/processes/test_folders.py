"""The data of one broker become the part of one process, whatever moment the move ends in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.app.processes.folders import brokers_in, check_single, locked, prepare
from tidelog.errors import InvalidConfig
from tidelog.storage.disk import SystemLock

FILES = (
    "orders-0/00000000000000000000.log",
    "orders-0/partition.metadata",
    ".kafka_cleanshutdown",
    "metadata-revision",
)
METADATA = ("metadata.sqlite", "metadata.sqlite-wal", "metadata.sqlite.reserve")


def single(folder: Path, node: int = 1) -> str:
    for name in FILES + METADATA:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (folder / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    (folder / ".lock").touch()
    return str(folder)


def check_moved(folder: Path, node: int = 1) -> None:
    part = folder / f"broker-{node}"
    assert {name: (part / name).read_text() for name in FILES} == {name: name for name in FILES}
    assert {name: (folder / "metadata" / name).read_text() for name in METADATA} == {
        name: name for name in METADATA
    }
    assert (part / "meta.properties").exists()
    left = set(os.listdir(folder)) - {"processes.lock", "secure"}
    assert left == {"processes.json", "metadata", f"broker-{node}"}


def test_one_brokers_data_become_its_part(tmp_path: Path) -> None:
    folder = single(tmp_path, 3)
    (tmp_path / "secure").mkdir()
    prepare([folder], [2, 3, 4], True)
    check_moved(tmp_path, 3)
    assert brokers_in(folder) == [2, 3, 4]
    prepare([folder], [2, 3, 4], True)
    check_moved(tmp_path, 3)


class Cut(Exception):
    pass


def test_the_move_goes_on_after_it_was_cut_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.rename

    def cut_after(steps: int) -> Callable[[str, str], None]:
        left = [steps]

        def rename(old: str, new: str) -> None:
            if not left[0]:
                raise Cut
            left[0] -= 1
            whole(old, new)

        return rename

    cuts = 0
    for steps in range(20):
        folder = single(tmp_path / str(steps))
        monkeypatch.setattr(os, "rename", cut_after(steps))
        try:
            prepare([folder], [1, 2], True)
        except Cut:
            cuts += 1
            with pytest.raises(Cut):
                prepare([folder], [1, 2], True)  # and cut again, before its first step
            monkeypatch.setattr(os, "rename", whole)
            prepare([folder], [1, 2], True)
        monkeypatch.setattr(os, "rename", whole)
        check_moved(tmp_path / str(steps))
    assert cuts >= len(FILES) + len(METADATA) - 1


def test_data_of_another_broker_are_refused(tmp_path: Path) -> None:
    folder = single(tmp_path, 9)
    with pytest.raises(InvalidConfig, match=r"has the data of broker 9.*give --id 9"):
        prepare([folder], [1, 2], True)
    assert (tmp_path / "orders-0").exists()


def test_a_broker_that_runs_there_keeps_its_data(tmp_path: Path) -> None:
    folder = single(tmp_path)
    lock = SystemLock(f"{folder}/.lock")
    with pytest.raises(InvalidConfig, match="stop the broker that runs there first"):
        prepare([folder], [1, 2], True)
    assert (tmp_path / "orders-0").exists()
    lock.close()
    prepare([folder], [1, 2], True)
    check_moved(tmp_path)


def test_a_process_with_replicas_is_not_left_out(tmp_path: Path) -> None:
    folder = str(tmp_path)
    prepare([folder], [1, 2, 3], True)
    (tmp_path / "broker-3" / "orders-0").mkdir(parents=True)
    with pytest.raises(InvalidConfig, match=r"broker 3 still has 1 replica.*tidelog brokers drain 3"):
        prepare([folder], [1, 2], True)
    prepare([folder], [1, 2, 3, 4], True)
    (tmp_path / "broker-3" / "orders-0").rmdir()
    prepare([folder], [1, 2], True)
    assert brokers_in(folder) == [1, 2]


def test_one_broker_does_not_start_beside_the_parts_of_several(tmp_path: Path) -> None:
    check_single(str(tmp_path))
    prepare([str(tmp_path)], [1, 2], True)
    with pytest.raises(InvalidConfig, match="start it with --processes 2"):
        check_single(str(tmp_path))
    (tmp_path / "processes.json").write_text("{")
    with pytest.raises(InvalidConfig, match="is damaged"):
        check_single(str(tmp_path))


def test_only_one_supervisor_uses_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.app.processes.folders.WAIT_S_MAX", 0)
    refused = pytest.raises(InvalidConfig, match="another `tidelog serve` runs there")
    with locked(str(tmp_path)), refused, locked(str(tmp_path)):
        pass
    with locked(str(tmp_path)):
        pass
