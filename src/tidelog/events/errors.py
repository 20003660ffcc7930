"""Errors of event sourcing."""

from __future__ import annotations

from tidelog.errors import TidelogError


class EventError(TidelogError):
    """An event or an aggregate is not declared as it must be."""


class UnknownEvent(EventError):
    """An event that is stored has a type, or a version of it, that no class was declared for."""


class VersionConflict(TidelogError):
    """Something happened to the aggregate since it was loaded: load it again, and decide again."""
