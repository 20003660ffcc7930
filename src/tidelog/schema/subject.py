"""Subjects: the name under which a schema is registered, and its id there.  All formats share this code."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.schema.framing import MAGIC, unframe
from tidelog.schema.registry import Registered, Registry

# (topic, is_key) -> subject
SubjectName = Callable[[str, bool], str]


def topic_name(topic: str, is_key: bool) -> str:
    """Confluent's default: one subject for a topic's keys, one for its values."""
    return f"{topic}-key" if is_key else f"{topic}-value"


class Subjects:
    """`auto_register`: schemas that a subject does not have are added; otherwise they must be there.
    `use_latest`: the subject's newest schema is written with, whatever the serializer's own is.  `normalize`: the order
    of things in a schema does not make it another one."""

    def __init__(
        self,
        registry: Registry,
        *,
        auto_register: bool,
        use_latest: bool,
        subject_name: SubjectName,
        normalize: bool = False,
    ) -> None:
        self.registry = registry
        self._auto_register = auto_register
        self._use_latest = use_latest
        self._normalize = normalize
        self._subject_name = subject_name
        self._known: dict[tuple[str, bool], tuple[int, Registered]] = {}

    def known(self, topic: str, is_key: bool) -> bool:
        return (topic, is_key) in self._known

    def schema_for(self, topic: str, is_key: bool, own: Callable[[], Registered]) -> tuple[int, Registered]:
        """The id and the schema to write with; `own` is only called at the first use."""
        cached = self._known.get((topic, is_key))
        if cached is None:
            subject = self._subject_name(topic, is_key)
            if self._use_latest:
                cached = self.registry.latest(subject)
            else:
                schema = own()
                add = self.registry.register if self._auto_register else self.registry.look_up
                cached = add(subject, schema, self._normalize), schema
            self._known[(topic, is_key)] = cached
        return cached

    def knows(self, data: bytes | None) -> bool:
        """True if the topic's schema needs no request to the registry."""
        if data is None or len(data) < 5 or data[0] != MAGIC:
            return True
        return self.registry.has(unframe("", data)[0])
