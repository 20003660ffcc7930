"""Names of subjects: a context and a name in it, written `:.context:name`, or just `name` in the default context.

Ids are unique within a context.  The settings of all subjects of a context are stored under `:.context:`.  Pure."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.registry.refusal import invalid_subject

DEFAULT_CONTEXT = "."
ANY_CONTEXT = ":*:"
_RESERVED = frozenset(("__GLOBAL", "__EMPTY"))
LENGTH_MAX = 1024


class Subject(NamedTuple):
    context: str
    name: str

    @staticmethod
    def of(text: str) -> Subject:
        """Parses any text; `checked` also checks the name of a new subject."""
        if not text.startswith(":."):
            return Subject(DEFAULT_CONTEXT, text)
        context, colon, name = text[1:].partition(":")
        if not colon:
            return Subject(context, "")
        return Subject(context, name)

    @property
    def qualified(self) -> str:
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"

    def __str__(self) -> str:
        return self.qualified


def canonical(text: str) -> str:
    """`:.:name` and `name` are the same subject."""
    return Subject.of(text).qualified


def context_key(context: str) -> str | None:
    """The key of a whole context's settings; None (global) for the default context."""
    return None if context == DEFAULT_CONTEXT else f":{context}:"


def context_named(text: str) -> str:
    """The context of a request path /contexts/..., with or without its dot and colons."""
    bare = text.strip(":")
    return bare if bare.startswith(".") else f".{bare}"


def checked(text: str) -> str:
    """The canonical name of a new subject; raises `invalid_subject` if the name is not allowed."""
    subject = Subject.of(text)
    name = subject.name
    bad = not name or name in _RESERVED or len(text) > LENGTH_MAX
    if bad or any(not letter.isprintable() for letter in text):
        raise invalid_subject(text)
    return subject.qualified
