"""A setting: its name, type, default, allowed values and documentation; and the tables that list settings.

A table is text with two lines per setting, so that settings can be read and compared at a glance:

    name type default [allowed] [built|n/a:WHY] [dynamic] [internal] [unlisted]
      One line of documentation.

`null` and `""` stand for no value and an empty value.  `allowed` is a choice of words and ranges, as in `-1|1..9` or `0..`.
*built* means that Tidelog acts on the setting.  *n/a* is a setting that cannot mean anything here: every value is
accepted, and a start says why it has no effect.
*dynamic* settings can be changed while the broker runs; *internal* settings are not listed;
*unlisted* settings are listed only if they are set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from tidelog.config.tables.inapplicable import NOT_APPLICABLE
from tidelog.errors import InvalidConfig


class UnknownSetting(InvalidConfig):
    """No setting has this name."""


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
    why_not: str
    """Why the setting is not applicable; empty when it acts."""
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
        if self.built:
            return self.doc
        return f"{self.doc} Not applicable to Tidelog: {self.why_not}"

    def parse(self, text: str | None) -> Value:
        """The value of `text`; InvalidConfig if it has the wrong type or is not allowed."""
        if text is None:
            if self.default is None:
                return None
            raise InvalidConfig(f"Null value not supported for {self.name}")
        try:
            value = _read(self.kind, text.strip())
        except ValueError as problem:
            raise self._refused(text, str(problem)) from None
        self._check(text, value)
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
                raise self._refused(text, f"String must be one of: {self.limits()}", outside[0])
        elif not self._allows(value):
            raise self._refused(text, self._bounds_broken(value))

    def _bounds_broken(self, value: Value) -> str:
        """In Apache Kafka's words, where Kafka has such a bound."""
        if len(self.allowed) == 1 and isinstance(bounds := self.allowed[0], AllowedRange):
            assert isinstance(value, int | float)
            if value < bounds.least:
                return f"Value must be at least {bounds.least:.15g}"
            return f"Value must be no more than {bounds.most:.15g}"
        if len(self.allowed) == 2 and isinstance(bounds := self.allowed[1], AllowedRange):
            return f"Value must be between {bounds.least:.15g} and {bounds.most:.15g} or equal to {self.allowed[0]}"
        kind = "String" if self.kind is SettingKind.STRING else "Value"
        return f"{kind} must be one of: {self.limits()}"

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

    def _refused(self, text: str, why: str, entry: str | None = None) -> InvalidConfig:
        """`entry`: of a list, the one that is not allowed."""
        shown = "[hidden]" if self.sensitive else text if entry is None else entry
        return InvalidConfig(f"Invalid value {shown} for configuration {self.name}: {why}")


def _read(kind: SettingKind, text: str) -> Value:
    if kind is SettingKind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError("Expected value to be either true or false")
        return text.lower() == "true"
    if kind in _BITS:
        if not _WHOLE.fullmatch(text) or len(text) > 20:
            raise ValueError(f"Not a number of type {kind.name}")
        number, bound = int(text), 1 << (_BITS[kind] - 1)
        if not -bound <= number < bound:
            raise ValueError(f"Not a number of type {kind.name}")
        return number
    if kind is SettingKind.DOUBLE:
        if not _DECIMAL.fullmatch(text):
            raise ValueError(f"Not a number of type {kind.name}")
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
    why_not = [NOT_APPLICABLE[word.removeprefix("n/a:")] for word in rest if word.startswith("n/a:")]
    rest = [word for word in rest if not word.startswith("n/a:")]
    allowed = [_read_option(option) for word in rest if word not in flags for option in word.split("|")]
    default = None if default_text == "null" else _read(kind, "" if default_text == '""' else default_text)
    return Setting(
        name,
        kind,
        default,
        tuple(allowed),
        doc,
        "built" in flags,
        "".join(why_not),
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
    of = kind.removesuffix("setting").strip()
    text = f"Unknown {of} config name: {name}" if of else f"unknown {kind} {name!r}"
    return text + (f": did you mean {near[0]!r}?" if near else "")
