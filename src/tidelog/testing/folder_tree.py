"""The folders of a simulated disk, and the journal of name changes that no folder sync has made durable yet.

Every change is one step or an atomic pair of steps (a rename).  After a power loss the changes of a folder survive up to
some point in the order they were made; a folder whose own name was lost is lost with everything in it."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from tidelog.testing.file_content import FileContent

KEPT_CHANCE = 0.7

Node: TypeAlias = "FileContent | VirtualFolder"


class VirtualFolder:
    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


@dataclass(frozen=True, slots=True)
class NameChange:
    """Makes one name in one folder refer to `node`, or removes the name."""

    folder: VirtualFolder
    name: str
    node: Node | None

    def apply(self, names: dict[str, Node]) -> None:
        if self.node is None:
            names.pop(self.name, None)
        else:
            names[self.name] = self.node


class FolderTree:
    def __init__(self) -> None:
        self._root = VirtualFolder()
        self._journal: list[tuple[NameChange, ...]] = []

    def find(self, path: str) -> Node | None:
        node: Node = self._root
        for name in _parts(path):
            if not isinstance(node, VirtualFolder) or name not in node.names:
                return None
            node = node.names[name]
        return node

    def missing(self, path: str) -> OSError:
        """The error of a path that does not exist: no such name, or a file is where a folder should be."""
        parts = _parts(path)
        above = [self.find("/".join(parts[:count])) for count in range(1, len(parts))]
        return _problem(
            errno.ENOTDIR if any(isinstance(n, FileContent) for n in above) else errno.ENOENT, path
        )

    def file(self, path: str) -> FileContent:
        node = self.find(path)
        if node is None:
            raise self.missing(path)
        if isinstance(node, VirtualFolder):
            raise _problem(errno.EISDIR, path)
        return node

    def folder(self, path: str) -> VirtualFolder:
        node = self.find(path)
        if node is None:
            raise self.missing(path)
        if not isinstance(node, VirtualFolder):
            raise _problem(errno.ENOTDIR, path)
        return node

    def parent(self, path: str) -> tuple[VirtualFolder, str]:
        parts = _parts(path)
        if not parts:
            raise _problem(errno.EISDIR, path)
        return self.folder("/".join(parts[:-1])), parts[-1]

    def missing_folders(self, path: str) -> list[str]:
        """The folders to make, outermost first, so that `path` is a folder."""
        parts = _parts(path)
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        missing = [folder for folder in above if self.find(folder) is None]
        if not missing and isinstance(self.find(path), FileContent):
            raise _problem(errno.EEXIST, path)
        return missing

    def link(self, path: str, node: Node) -> None:
        folder, name = self.parent(path)
        self._change(NameChange(folder, name, node))

    def unlink(self, path: str) -> None:
        folder, name = self.parent(path)
        self._change(NameChange(folder, name, None))

    def rename(self, old: str, new: str) -> Node | None:
        """Renames a node; returns the node that it replaces, if any."""
        (source, name), (target, new_name) = self.parent(old), self.parent(new)
        node, replaced = self.find(old), self.find(new)
        if node is None:
            raise self.missing(old)
        if node is replaced:
            return None
        if isinstance(replaced, VirtualFolder):
            if not isinstance(node, VirtualFolder):
                raise _problem(errno.EISDIR, new)
            if replaced.names:
                raise _problem(errno.ENOTEMPTY, new)
        elif replaced is not None and isinstance(node, VirtualFolder):
            raise _problem(errno.ENOTDIR, new)
        self._change(NameChange(source, name, None), NameChange(target, new_name, node))
        return replaced

    def empty(self, path: str) -> list[FileContent]:
        """Puts an empty folder in the place of `path`, durably; returns the files that are gone."""
        gone = [content for name, content in self.walk() if name.startswith(f"{path}/")]
        above, name = self.parent(path)
        above.names[name] = above.durable[name] = VirtualFolder()
        return gone

    def sync(self, path: str) -> None:
        """Makes this folder's changes durable, with the changes of other folders that they depend on through renames."""
        needed = {id(self.folder(path))}
        chosen: set[int] = set()
        for index in range(len(self._journal) - 1, -1, -1):
            touched = {id(step.folder) for step in self._journal[index]}
            if touched & needed:
                needed |= touched
                chosen.add(index)
        for index in sorted(chosen):
            _apply(self._journal[index])
        self._journal = [change for index, change in enumerate(self._journal) if index not in chosen]

    def sync_all(self) -> None:
        for change in self._journal:
            _apply(change)
        self._journal = []

    def files(self) -> list[FileContent]:
        return [content for _, content in self.walk()]

    def walk(self) -> list[tuple[str, FileContent]]:
        """Every file with its path, in the order the names were made."""
        files: list[tuple[str, FileContent]] = []
        waiting: list[tuple[str, VirtualFolder]] = [("", self._root)]
        while waiting:
            path, folder = waiting.pop()
            for name, node in folder.names.items():
                if isinstance(node, VirtualFolder):
                    waiting.append((f"{path}/{name}", node))
                else:
                    files.append((f"{path}/{name}", node))
        return files

    def power_lost(self, random: Random) -> None:
        """Makes the tree what the next start finds.  Handles keep the old nodes, which no longer belong to the tree."""
        stopped: set[int] = set()
        for change in self._journal:
            touched = {id(step.folder) for step in change}
            if touched & stopped or random.random() >= KEPT_CHANCE:
                stopped |= touched
            else:
                _apply(change)
        self._journal = []
        self._root = _after_power_loss(self._root, random)

    def _change(self, *steps: NameChange) -> None:
        for step in steps:
            step.apply(step.folder.names)
        self._journal.append(steps)


def _apply(change: tuple[NameChange, ...]) -> None:
    for step in change:
        step.apply(step.folder.durable)


def _after_power_loss(folder: VirtualFolder, random: Random) -> VirtualFolder:
    survived = VirtualFolder()
    for name, node in folder.durable.items():
        if isinstance(node, VirtualFolder):
            survived.names[name] = _after_power_loss(node, random)
        else:
            survived.names[name] = FileContent(node.after_power_loss(random))
    survived.durable = dict(survived.names)
    return survived


def _parts(path: str) -> list[str]:
    parts = os.path.normpath(path).split("/")
    return [part for part in parts if part not in ("", ".")]


def _problem(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
