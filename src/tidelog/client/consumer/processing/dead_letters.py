"""Records that keep failing, written to a topic of their own: as they were, with the error in their headers.

`Processing` owns the only instance.  A letter never fails for what the error says: whatever that is, it becomes
text of a bounded length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog import errors
from tidelog._speed.client.consumed import Record
from tidelog.client.errors import ProcessingFailed

if TYPE_CHECKING:
    from tidelog.client.producer.producer import Producer

HEADER = "tidelog.dead.letter."
REASON_SIZE_MAX = 4_000
# A letter is as large as its record, and that is as large as a broker takes requests.
LETTER_BYTES_MAX = 100 << 20


class DeadLetterWriter:
    def __init__(self, topic: str, producer: Producer) -> None:
        self._topic = topic
        self._producer = producer

    async def write(self, record: Record, problem: BaseException, attempts: int) -> None:
        """Returns when the letter is acknowledged."""
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        if record.topic == self._topic:
            raise ProcessingFailed(
                f"{where} failed, and is a dead letter itself: do not subscribe to {self._topic!r} here"
            ) from problem
        facts = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "attempts": str(attempts),
            "error": type(problem).__name__,
            "reason": reason_of(problem),
        }
        headers = [*record.headers, *[(HEADER + name, encoded(text)) for name, text in facts.items()]]
        try:
            await (await self._producer.send(self._topic, record.value, record.key, headers))
        except errors.TidelogError as second:
            if second.retriable:
                raise
            way_out = ": raise its max.message.bytes" if isinstance(second, errors.MessageTooLarge) else ""
            raise ProcessingFailed(
                f"{where} failed with {described(problem)}, and could not be written to {self._topic!r} "
                f"({second}){way_out}"
            ) from second


def reason_of(problem: BaseException) -> str:
    """The exception's message; reading it may raise, too."""
    try:
        return cut(str(problem))
    except Exception:
        return "its message cannot be read"


def described(problem: BaseException) -> str:
    try:
        return cut(repr(problem))
    except Exception:
        return type(problem).__name__


def cut(text: str) -> str:
    return text if len(text) <= REASON_SIZE_MAX else f"{text[:REASON_SIZE_MAX]} ..."


def encoded(text: str) -> bytes:
    """File names may have lone surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace")
