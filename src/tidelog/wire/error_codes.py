"""Which error codes a message has in it, however deep.

Where they are follows from the generated classes and is found out once for each."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.wire.message import Struct

_ELEMENT = re.compile(r"list\[(\w+)\]")


class Places(NamedTuple):
    codes: tuple[str, ...]
    inner: tuple[str, ...]
    """Lists of structs that have codes in them."""


_KNOWN: dict[type[Struct], Places] = {}


def error_codes(message: Struct) -> Iterator[int]:
    """The error codes of a message that are not 0."""
    places = _KNOWN.get(type(message)) or _look(type(message))
    for name in places.codes:
        code: int = getattr(message, name)
        if code:
            yield code
    for name in places.inner:
        for part in getattr(message, name) or ():
            if isinstance(part, Struct):
                yield from error_codes(part)


def _look(kind: type[Struct]) -> Places:
    codes = tuple(name for name in kind.__slots__ if name.endswith("error_code"))
    inner = []
    module = sys.modules[kind.__module__]
    for name, annotation in kind.__init__.__annotations__.items():
        element = _ELEMENT.match(str(annotation))
        part = None if element is None else getattr(module, element[1], None)
        if isinstance(part, type) and issubclass(part, Struct) and part is not kind and any(_look(part)):
            inner.append(name)
    _KNOWN[kind] = Places(codes, tuple(inner))
    return _KNOWN[kind]
