"""The header of a request: its client id, and where the body starts."""

from typing_extensions import Buffer

def request_header(frame: Buffer, flexible: bool) -> tuple[str | None, int]:
    """(client id, where the body starts); raises ValueError on bytes that are no header."""
