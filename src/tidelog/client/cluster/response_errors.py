"""Turns error codes of answers into exceptions.  Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog import errors


def problem_of(code: int, subject: str, message: str | None = None) -> errors.TidelogError:
    """`subject` names the thing that the request was about; `message` is the broker's own text, if any."""
    error_class = errors.by_code(code)
    reason = message or (error_class.about if error_class.code == code else f"unknown error code {code}")
    return error_class(f"{subject}: {reason}")


def check(code: int, subject: str, message: str | None = None) -> None:
    if code != errors.NONE:
        raise problem_of(code, subject, message)


def raise_all(summary: str, problems: Sequence[errors.TidelogError]) -> None:
    """One failure is raised as it is, several as a group, so that none is lost."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ExceptionGroup(summary, list(problems))
