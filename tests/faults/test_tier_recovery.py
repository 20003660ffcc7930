"""All brokers are lost, and remote storage is left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.conformance.process import wait_until
from tests.faults.tiered import (
    KEEPS_ONE_SEGMENT,
    SECONDS_MAX,
    FolderStore,
    create,
    fill,
    offset_of,
    read,
    settings,
)
from tidelog.cli import cli
from tidelog.testing import broker

TOPIC = "readings"
COUNT = 6000  # about six segments


def recover(store: FolderStore, data: Path, *options: str, code: int = 0) -> str:
    arguments = ["backup", "from-tiers", "--store", store.url, "--data", str(data), *options]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    (tmp_path / "store").mkdir()
    return FolderStore(tmp_path / "store")


def test_what_was_copied_is_there_and_the_rest_is_named(store: FolderStore, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(settings(store.url), folder=data) as lost:
        create(lost.bootstrap_servers, TOPIC, KEEPS_ONE_SEGMENT, partitions=2)
        fill(lost.bootstrap_servers, TOPIC, 0, COUNT)
        wait_until(lambda: store.copied_to(TOPIC) > COUNT - 1500, SECONDS_MAX, "sealed segments are copied")
    end = store.copied_to(TOPIC)
    shutil.rmtree(data)
    (first, *_) = json.loads(recover(store, tmp_path / "new", "--json"))["partitions"]
    assert (first["start"], first["end"]) == (0, end)
    with broker({}, folder=tmp_path / "new") as fresh:
        assert offset_of(fresh.bootstrap_servers, TOPIC, -1) == end
        assert read(fresh.bootstrap_servers, TOPIC, 0, end) == list(range(end))
        # Producers get ids that the old logs do not know.
        fill(fresh.bootstrap_servers, TOPIC, end, 100)
        assert read(fresh.bootstrap_servers, TOPIC, 0, end + 100) == list(range(end + 100))


def test_a_store_without_the_cluster_is_told(store: FolderStore, tmp_path: Path) -> None:
    assert "there are none" in recover(store, tmp_path / "new", code=1)
    assert not (tmp_path / "new").exists()
