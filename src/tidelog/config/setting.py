"""A setting: its name, type, default, allowed values and documentation; and the tables that list settings.

A table is text with two lines per setting, so that settings can be read and compared at a glance:

    name type default [allowed] [built] [dynamic] [internal] [unlisted]
      One line of documentation.

`null` and `""` stand for no value and an empty value.  `allowed` is a choice of words and ranges, as in `-1|1..9` or `0..`.
*built* means that Tidelog acts on the setting; any other setting may only have its default value, so that no value is
accepted and then ignored.  *dynamic* settings can be changed while the broker runs; *internal* settings are not listed;
*unlisted* settings are listed only if they are set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from tidelog.errors import InvalidConfig


class UnknownSetting(InvalidConfig):
    """No setting has this name."""


class NotBuilt(InvalidConfig):
    """Kafka acts on this value, Tidelog does not yet."""


Value = bool | int | float | str | tuple[str, ...] | None


class SettingKind(IntEnum):
    """The numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_BITS = {SettingKind.SHORT: 16, SettingKind.INT: 32, SettingKind.LONG: 64}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_RANGE = re.compile(r"(-?[0-9.]+?)\.\.(-?[0-9.]+)?")


@dataclass(frozen=True, slots=True)
class AllowedRange:
    least: float
    most: float | None

    def holds(self, value: float) -> bool:
        return self.least <= value and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least:.15g}"
        return f"{self.least:.15g} to {self.most:.15g}"


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    kind: SettingKind
    default: Value
    allowed: tuple[AllowedRange | str, ...]
    doc: str
    built: bool
    dynamic: bool
    internal: bool
    unlisted: bool

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def sensitive(self) -> bool:
        return self.kind is SettingKind.PASSWORD

    @property
    def documentation(self) -> str:
        return (
            self.doc
            if self.built
            else f"{self.doc} Tidelog does not act on it yet and takes only the default."
        )

    def parse(self, text: str | None) -> Value:
        """The value of `text`; InvalidConfig if it has the wrong type or is not allowed."""
        if text is None:
            if self.default is None:
                return None
            raise self._refused(None, "it needs a value")
        try:
            value = _read(self.kind, text.strip())
        except ValueError as problem:
            raise self._refused(text, str(problem)) from None
        self._check(text, value)
        return value

    def accept(self, text: str | None) -> Value:
        """Like `parse`, but also refuses a value that would have no effect in Tidelog."""
        value = self.parse(text)
        if not self.built and value != self.default:
            kept = "unset" if self.default is None else f"{self.text(self.default)!r}"
            raise NotBuilt(f"{self.name} is known but not built in Tidelog yet: it must stay {kept}")
        return value

    def text(self, value: Value) -> str | None:
        """The value in Kafka's notation."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return _java_double(value)
        if isinstance(value, tuple):
            return ",".join(value)
        return None if value is None else str(value)

    def limits(self) -> str:
        """The allowed values in words; empty if every value of the type is allowed."""
        return ", ".join(map(str, self.allowed))

    def _check(self, text: str, value: Value) -> None:
        if isinstance(value, tuple):
            if "" in value:
                raise self._refused(text, "an entry is empty")
            outside = [entry for entry in value if not self._allows(entry)]
            if outside:
                raise self._refused(text, f"{outside[0]!r} is not one of {self.limits()}")
        elif not self._allows(value):
            raise self._refused(text, f"it must be {'one of ' * (len(self.allowed) > 1)}{self.limits()}")

    def _allows(self, value: Value) -> bool:
        if not self.allowed:
            return True
        for option in self.allowed:
            if isinstance(option, str):
                if option == str(value):
                    return True
            elif isinstance(value, int | float) and option.holds(value):
                return True
        return False

    def _refused(self, text: str | None, why: str) -> InvalidConfig:
        shown = "" if self.sensitive else f" {text!r}"
        return InvalidConfig(
            f"{self.name} cannot be{shown}: {why}" if text is not None else f"{self.name}: {why}"
        )


def _read(kind: SettingKind, text: str) -> Value:
    if kind is SettingKind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError("it must be true or false")
        return text.lower() == "true"
    if kind in _BITS:
        if not _WHOLE.fullmatch(text) or len(text) > 20:
            raise ValueError("it must be a whole number")
        number, bound = int(text), 1 << (_BITS[kind] - 1)
        if not -bound <= number < bound:
            raise ValueError(f"it must be a whole number from {-bound} to {bound - 1}")
        return number
    if kind is SettingKind.DOUBLE:
        if not _DECIMAL.fullmatch(text):
            raise ValueError("it must be a number")
        return float(text)
    if kind is SettingKind.LIST:
        # A repeated entry counts once, as in Kafka.
        return tuple(dict.fromkeys(entry.strip() for entry in text.split(","))) if text else ()
    return text


def _java_double(value: float) -> str:
    """Formats like Java's Double.toString: plain from 0.001 up to 10 million, otherwise with an exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # rare: no built setting has such a default

    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits))
    fraction = shown[1:].rstrip("0") or "0"
    return f"{'-' * sign}{shown[0]}.{fraction}E{exponent + len(shown) - 1}"


def read_table(*texts: str) -> dict[str, Setting]:
    settings = {}
    for text in texts:
        lines = text.strip("\n").split("\n")
        for facts, doc in zip(lines[::2], lines[1::2], strict=True):
            setting = _read_setting(facts.split(), doc.strip())
            settings[setting.name] = setting
    return settings


def _read_setting(facts: list[str], doc: str) -> Setting:
    name, kind_name, default_text, *rest = facts
    kind = SettingKind[kind_name.upper()]
    flags = {word for word in rest if word in ("built", "dynamic", "internal", "unlisted")}
    allowed = [_read_option(option) for word in rest if word not in flags for option in word.split("|")]
    default = None if default_text == "null" else _read(kind, "" if default_text == '""' else default_text)
    return Setting(
        name,
        kind,
        default,
        tuple(allowed),
        doc,
        "built" in flags,
        "dynamic" in flags,
        "internal" in flags,
        "unlisted" in flags,
    )


def _read_option(option: str) -> AllowedRange | str:
    ends = _RANGE.fullmatch(option)
    if ends is None:
        return option
    return AllowedRange(float(ends[1]), None if ends[2] is None else float(ends[2]))


def find(settings: Mapping[str, Setting], name: str, kind: str) -> Setting:
    """The setting called `name`; if there is none, UnknownSetting, which suggests the most similar name."""
    setting = settings.get(name)
    if setting is None:
        raise UnknownSetting(unknown(name, settings, kind))
    return setting


def unknown(name: str, names: Iterable[str], kind: str) -> str:
    import difflib  # loaded only for an error: it is slow to load

    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"unknown {kind} {name!r}" + (f": did you mean {near[0]!r}?" if near else "")
