"""A networked cluster whose machines lose their power: what a broker has written and not synced is gone.

Each broker's disk is an ext4 file system in an image behind a loop device.  Bytes that were not synced are in the kernel's
pages of that file system, and not in the image.  A power cut kills the broker, takes a copy of the image as it is, and
mounts the copy in its place: ext4 replays its journal, as after a real cut.  The machine has another boot id then."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.faults.networked_cluster import NetworkedCluster

IMAGE_MIB = 192
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NEEDED = {"mkfs.ext4": "e2fsprogs", "losetup": "mount"}


class PoweredCluster(NetworkedCluster):
    lost_bytes = 0
    """Of segments, by all power cuts so far."""

    @contextmanager
    def power_cut(self, *machines: int) -> Iterator[None]:
        """All at the same time; they are back one after the other."""
        with ExitStack() as processes:
            for machine in sorted(machines):
                processes.enter_context(self._of_process[machine])
            for machine in machines:
                self.brokers[machine].kill()
            for machine in machines:
                self._lose_what_is_not_synced(machine)
            yield
            for machine in machines:
                self.start_broker(machine)

    def _mount_disk(self, number: int, data: Path) -> None:
        missing = [package for tool, package in NEEDED.items() if shutil.which(tool) is None]
        if missing:
            pytest.fail(f"these tests need: apt-get install {' '.join(missing)}")
        data.mkdir(parents=True)
        image, boot = self._image(number), self.folder / f"boot-{number}"
        with image.open("wb") as file:
            file.truncate(IMAGE_MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
        self._mount(number, data)
        boot.write_text(f"{uuid4()}\n")
        self.network.machines[number].run("mount", "--bind", str(boot), BOOT_ID)

    def _lose_what_is_not_synced(self, number: int) -> None:
        machine, data = self.network.machines[number], self.brokers[number].data
        before = self._segment_bytes(number)
        image, left = self._image(number), self._image(number).with_suffix(".left")
        subprocess.run(["cp", "--sparse=always", str(image), str(left)], check=True)
        machine.run("umount", str(data))
        left.replace(image)
        self._mount(number, data)
        (self.folder / f"boot-{number}").write_text(f"{uuid4()}\n")
        lost = before - self._segment_bytes(number)
        self.lost_bytes += lost
        print(f"machine {number} lost its power, and {lost} bytes of segments")

    def _mount(self, number: int, data: Path) -> None:
        self.network.machines[number].run("mount", "-o", "loop", str(self._image(number)), str(data))

    def _image(self, number: int) -> Path:
        return self.folder / f"disk-{number}.image"

    def _segment_bytes(self, number: int) -> int:
        folder = self.network.machines[number].inside(self.brokers[number].data)
        return sum(path.stat().st_size for path in folder.glob("*/*.log"))
