"""What went wrong with an HTTP request, as the person or program that sent it gets to read it."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.gateways.http.json_text import JsonAnswer


class Problem(Exception):
    """Raised by gateways.  `code` is the number that programs look at, where it says more than the status."""

    def __init__(
        self, status: int, message: str, code: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = status if code is None else code
        self.headers = headers

    def answer(self) -> JsonAnswer:
        return JsonAnswer({"error_code": self.code, "message": self.message}, self.status, self.headers)
