"""Files that two clusters share."""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.storage.shared_files import make_own


def test_a_shared_file_is_copied_before_it_is_changed(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.write_bytes(b"records")
    os.link(mine, theirs)
    held = mine.open("rb")
    assert make_own(str(mine))
    mine.write_bytes(b"other")
    assert theirs.read_bytes() == held.read() == b"records"
    held.close()
    assert sorted(os.listdir(tmp_path)) == ["mine", "theirs"]


def test_other_files_stay_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_bytes(b"records")
    inode = path.stat().st_ino
    assert not make_own(str(path)) and path.stat().st_ino == inode
    assert not make_own(str(tmp_path / "nothing"))
