"""Questions about many groups, with one request for each coordinator and not one for each group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from tidelog import errors
from tidelog.client.cluster.addresses import Address
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.coordinator import KEYS_VERSION_MIN, CoordinatorLookup, CoordinatorType
from tidelog.client.cluster.response_errors import problem_of
from tidelog.net.requester import Requester
from tidelog.types import TopicPartition
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")


class Answered(Protocol):
    @property
    def group_id(self) -> str: ...


G = TypeVar("G", bound=Answered)

GROUPS_MAX = 200  # in one request

Ask = Callable[[Requester, list[str]], Awaitable[Mapping[str, T | errors.TidelogError]]]
"""Asks a coordinator about groups of its own: for each what it says, or why it says nothing."""


async def ask_coordinators(
    cluster: Cluster, group_ids: Iterable[str], what: str, ask: Ask[T], *, timeout_ms: int
) -> tuple[dict[str, T], dict[str, errors.TidelogError]]:
    """What was found of each group, and why there is nothing of the others.  What may pass is asked again; a
    coordinator that cannot be reached does not keep the others from being asked."""
    found: dict[str, T] = {}
    problems: dict[str, errors.TidelogError] = {}
    wanted = list(dict.fromkeys(group_ids))

    def left() -> list[str]:
        return [one for one in wanted if one not in found and one not in problems]

    async def ask_the_rest() -> None:
        passing: errors.TidelogError | None = None
        rest = left()
        for at in range(0, len(rest), GROUPS_MAX):
            coordinators, lost = await _coordinators(cluster, rest[at : at + GROUPS_MAX])
            answers: dict[str, T | errors.TidelogError] = {**lost}
            for address, groups in coordinators.items():
                try:
                    answers |= await ask(await cluster.at(address), groups)
                except errors.TidelogError as problem:
                    answers |= dict.fromkeys(groups, problem)
            for group, answer in answers.items():
                if not isinstance(answer, errors.TidelogError):
                    found[group] = answer
                elif answer.retriable:
                    passing = answer
                else:
                    problems[group] = answer
        if passing is not None:
            raise passing

    try:
        await cluster.retrying(what, ask_the_rest, timeout_ms)
    except errors.TidelogError as problem:
        problems |= dict.fromkeys(left(), problem)
    return found, problems


def offsets_told(
    groups: Iterable[G], read: Callable[[G], dict[TopicPartition, T]]
) -> dict[str, dict[TopicPartition, T] | errors.TidelogError]:
    """From the groups of an answer, each read with `read`; a group that is gone has no offsets."""
    found: dict[str, dict[TopicPartition, T] | errors.TidelogError] = {}
    for group in groups:
        try:
            found[group.group_id] = read(group)
        except errors.GroupIdNotFound:
            found[group.group_id] = {}
        except errors.TidelogError as problem:
            found[group.group_id] = problem
    return found


async def _coordinators(
    cluster: Cluster, groups: Sequence[str]
) -> tuple[dict[Address, list[str]], dict[str, errors.TidelogError]]:
    connection = await cluster.any()
    version = connection.version_of(FindCoordinatorRequest)
    found: dict[Address, list[str]] = {}
    problems: dict[str, errors.TidelogError] = {}
    if version < KEYS_VERSION_MIN:
        for group in groups:
            try:
                address = await CoordinatorLookup(cluster, CoordinatorType.GROUP, group).address()
                found.setdefault(address, []).append(group)
            except errors.TidelogError as problem:
                problems[group] = problem
        return found, problems
    request = FindCoordinatorRequest(key_type=CoordinatorType.GROUP, coordinator_keys=list(groups))
    answer = await connection.ask(request, FindCoordinatorResponse, version=version)
    for one in answer.coordinators:
        if one.error_code == errors.NONE:
            found.setdefault(Address(one.host, one.port), []).append(one.key)
        else:
            subject = f"the coordinator of group {one.key!r}"
            problems[one.key] = problem_of(one.error_code, subject, one.error_message)
    return found, problems
