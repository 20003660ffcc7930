"""Small and failing disks, in a mount namespace of their own: nothing is left behind when the test ends.

Works for root and, where the system lets users have namespaces, for everybody else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

IS_ROOT = os.geteuid() == 0
UNSHARE = ["unshare", *([] if IS_ROOT else ["--map-root-user"]), "--mount"]


class Namespace:
    """A process that does nothing but keep the mounts alive over restarts of the broker."""

    def __init__(self) -> None:
        command = [*UNSHARE, "sh", "-c", "echo ready; exec sleep 3600"]
        self._holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        self._holder.stdout.readline()

    @property
    def prefix(self) -> list[str]:
        """Put before a command, it runs inside."""
        user = [] if IS_ROOT else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(self._holder.pid), *user, "--mount", "--"]

    def run(self, *command: str) -> str:
        return subprocess.run([*self.prefix, *command], check=True, capture_output=True, text=True).stdout

    def mount(self, folder: Path, kib: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.run("mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder))

    def unmount(self, folder: Path) -> None:
        """Gone from its place at once, whoever still has files open."""
        self.run("umount", "--lazy", str(folder))

    def inside(self, path: Path) -> Path:
        """The same place as it is seen from out here."""
        return Path(f"/proc/{self._holder.pid}/root") / path.relative_to("/")

    def free_bytes(self, folder: Path) -> int:
        facts = os.statvfs(self.inside(folder))
        return facts.f_bavail * facts.f_frsize

    def fill(self, folder: Path) -> Path:
        """A file that takes all the space there is, also while others take some."""
        ballast = self.inside(folder) / "ballast"
        with ballast.open("wb") as file:
            at, step = 0, 1 << 20
            while step >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), at, step)
                    at += step
                except OSError:
                    step //= 2
        return ballast

    def end(self) -> None:
        self._holder.kill()
        self._holder.wait()


def missing() -> str | None:
    """Why there can be no namespaces here, or None."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return "unshare and nsenter (util-linux) are not installed"
    probe = [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", "/tmp"]
    done = subprocess.run(probe, capture_output=True, text=True)
    return None if done.returncode == 0 else f"no mount namespaces here: {done.stderr.strip()}"
