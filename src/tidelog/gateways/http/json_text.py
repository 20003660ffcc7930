"""JSON as the standard has it: no NaN, no numbers beyond a double, and answers that are always valid UTF-8."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import JSONResponse


def parse(text: bytes | str) -> Any:
    """ValueError or RecursionError for what is no JSON."""
    return DECODER.decode(text.decode() if isinstance(text, bytes) else text)


def written(value: Any) -> bytes:
    """Short.  Half of a surrogate pair, which UTF-8 cannot say, is written as an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


class JsonAnswer(JSONResponse):
    def render(self, content: Any) -> bytes:
        return written(content)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a number")
    return number


DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
