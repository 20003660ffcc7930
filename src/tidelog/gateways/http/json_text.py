"""JSON as the standard has it: no NaN, no numbers beyond a double, and answers that are always valid UTF-8."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from starlette.responses import JSONResponse


def parse(text: bytes | str) -> Any:
    """ValueError or RecursionError for what is no JSON."""
    return DECODER.decode(text.decode() if isinstance(text, bytes) else text)


def parse_request(text: bytes) -> Any:
    """The JSON of a request: its text can also be encoded in UTF-8, as every protocol behind us needs it.  Long ones are for
    `json_steps`."""
    value = parse(text)
    check_text(text.decode(), value)
    return value


def check_text(text: str, value: Any) -> None:
    """ValueError when `value`, read from `text`, has half of a surrogate pair in it."""
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("there is half of a surrogate pair in it, which is no letter") from None


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


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
