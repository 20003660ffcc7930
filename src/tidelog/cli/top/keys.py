"""From bytes of a terminal to keys: a printable character stands for itself, others have a name.  Pure."""

from __future__ import annotations

import codecs

ESCAPE = "\x1b"
PENDING_MAX = 32

_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x0c": "redraw",
    "\x15": "clear",
    "\x03": "quit",
    "\x04": "quit",
}
# What follows ESC, in the ways that terminals write it.
_SEQUENCES = {
    **{f"{lead}{letter}": name for lead in "[O" for letter, name in (
        ("A", "up"), ("B", "down"), ("C", "right"), ("D", "left"), ("H", "home"), ("F", "end"))},
    "[1~": "home",
    "[7~": "home",
    "[4~": "end",
    "[8~": "end",
    "[5~": "page-up",
    "[6~": "page-down",
    "[Z": "back-tab",
}  # fmt: skip


class Keys:
    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._pending = ""

    @property
    def waiting(self) -> bool:
        """An escape has come, and perhaps the rest of a longer key will."""
        return bool(self._pending)

    def feed(self, data: bytes) -> list[str]:
        keys = []
        for character in self._decoder.decode(data):
            if self._pending:
                keys += self._continued(character)
            elif character == ESCAPE:
                self._pending = character
            else:
                keys += _plain(character)
        return keys

    def flush(self) -> list[str]:
        """Nothing more has come: an escape that stands alone was the key itself."""
        alone, self._pending = self._pending == ESCAPE, ""
        return ["escape"] if alone else []

    def _continued(self, character: str) -> list[str]:
        if self._pending == ESCAPE and character not in "[O":
            # Escape, then another key; with Alt held down it is the same bytes.
            self._pending = ESCAPE if character == ESCAPE else ""
            return ["escape", *(() if character == ESCAPE else _plain(character))]
        self._pending += character
        sequence = self._pending[1:]
        if len(sequence) == 1 or not "@" <= character <= "~":
            if len(self._pending) > PENDING_MAX:
                self._pending = ""
            return []
        self._pending = ""
        return [_SEQUENCES[sequence]] if sequence in _SEQUENCES else []


def _plain(character: str) -> list[str]:
    if character in _NAMES:
        return [_NAMES[character]]
    return [character] if character.isprintable() else []
