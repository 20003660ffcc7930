"""The folders of a simulated disk, and the journal of name changes that no folder sync has made durable
yet.

Every change is one step or an atomic pair (a rename).  After a power loss the changes of a folder survive
up to some point in the order they were made; a folder whose own name was lost is gone with all in it."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from tidelog.testing.content import Content

KEPT_CHANCE = 0.7

Node: TypeAlias = "Content | Folder"


class Folder:
    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """One name in one folder now leads to `node`, or to nothing."""

    folder: Folder
    name: str
    node: Node | None

    def apply(self, names: dict[str, Node]) -> None:
        if self.node is None:
            names.pop(self.name, None)
        else:
            names[self.name] = self.node


class Names:
    def __init__(self) -> None:
        self._root = Folder()
        self._journal: list[tuple[Step, ...]] = []

    def find(self, path: str) -> Node | None:
        node: Node = self._root
        for name in _parts(path):
            if not isinstance(node, Folder) or name not in node.names:
                return None
            node = node.names[name]
        return node

    def missing(self, path: str) -> OSError:
        """Why `find` found nothing: no such name, or a file stands where a folder should."""
        parts = _parts(path)
        above = [self.find("/".join(parts[:count])) for count in range(1, len(parts))]
        return _problem(errno.ENOTDIR if any(isinstance(n, Content) for n in above) else errno.ENOENT, path)

    def file(self, path: str) -> Content:
        node = self.find(path)
        if node is None:
            raise self.missing(path)
        if isinstance(node, Folder):
            raise _problem(errno.EISDIR, path)
        return node

    def folder(self, path: str) -> Folder:
        node = self.find(path)
        if node is None:
            raise self.missing(path)
        if not isinstance(node, Folder):
            raise _problem(errno.ENOTDIR, path)
        return node

    def parent(self, path: str) -> tuple[Folder, str]:
        parts = _parts(path)
        if not parts:
            raise _problem(errno.EISDIR, path)
        return self.folder("/".join(parts[:-1])), parts[-1]

    def missing_folders(self, path: str) -> list[str]:
        """The paths that have to be made, outermost first, for `path` to be a folder."""
        parts = _parts(path)
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        missing = [folder for folder in above if self.find(folder) is None]
        if not missing and isinstance(self.find(path), Content):
            raise _problem(errno.EEXIST, path)
        return missing

    def link(self, path: str, node: Node) -> None:
        folder, name = self.parent(path)
        self._change(Step(folder, name, node))

    def unlink(self, path: str) -> None:
        folder, name = self.parent(path)
        self._change(Step(folder, name, None))

    def rename(self, old: str, new: str) -> Node | None:
        """What `new` led to before, if that is gone now."""
        (source, name), (target, new_name) = self.parent(old), self.parent(new)
        node, there = self.find(old), self.find(new)
        if node is None:
            raise self.missing(old)
        if node is there:
            return None
        if isinstance(there, Folder):
            if not isinstance(node, Folder):
                raise _problem(errno.EISDIR, new)
            if there.names:
                raise _problem(errno.ENOTEMPTY, new)
        elif there is not None and isinstance(node, Folder):
            raise _problem(errno.ENOTDIR, new)
        self._change(Step(source, name, None), Step(target, new_name, node))
        return there

    def sync(self, path: str) -> None:
        """Makes this folder's changes durable, with whatever they depend on in others through renames."""
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

    def files(self) -> list[Content]:
        return [content for _, content in self.walk()]

    def walk(self) -> list[tuple[str, Content]]:
        """Every file with its path, in the order the names were made."""
        found: list[tuple[str, Content]] = []
        waiting: list[tuple[str, Folder]] = [("", self._root)]
        while waiting:
            path, folder = waiting.pop()
            for name, node in folder.names.items():
                if isinstance(node, Folder):
                    waiting.append((f"{path}/{name}", node))
                else:
                    found.append((f"{path}/{name}", node))
        return found

    def power_lost(self, random: Random) -> None:
        """The tree as found at the next start.  Old nodes stay with whoever holds them and reach nothing
        here."""
        stopped: set[int] = set()
        for change in self._journal:
            touched = {id(step.folder) for step in change}
            if touched & stopped or random.random() >= KEPT_CHANCE:
                stopped |= touched
            else:
                _apply(change)
        self._journal = []
        self._root = _after_power_loss(self._root, random)

    def _change(self, *steps: Step) -> None:
        for step in steps:
            step.apply(step.folder.names)
        self._journal.append(steps)


def _apply(change: tuple[Step, ...]) -> None:
    for step in change:
        step.apply(step.folder.durable)


def _after_power_loss(folder: Folder, random: Random) -> Folder:
    found = Folder()
    for name, node in folder.durable.items():
        if isinstance(node, Folder):
            found.names[name] = _after_power_loss(node, random)
        else:
            found.names[name] = Content(node.after_power_loss(random))
    found.durable = dict(found.names)
    return found


def _parts(path: str) -> list[str]:
    parts = os.path.normpath(path).split("/")
    return [part for part in parts if part not in ("", ".")]


def _problem(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)
