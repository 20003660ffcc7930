"""Requests about many groups: one for each coordinator, not one for each group."""

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


class GroupAnswer(Protocol):
    @property
    def group_id(self) -> str: ...


G = TypeVar("G", bound=GroupAnswer)

GROUPS_MAX = 200  # in one request

Ask = Callable[[Requester, list[str]], Awaitable[Mapping[str, T | errors.TidelogError]]]
"""Asks a coordinator about groups that it coordinates; the answer or the error for each."""


async def ask_coordinators(
    cluster: Cluster, group_ids: Iterable[str], purpose: str, ask: Ask[T], *, timeout_ms: int
) -> tuple[dict[str, T], dict[str, errors.TidelogError]]:
    """The answers by group, and the errors of the other groups.  Retriable errors are retried; a coordinator that
    cannot be reached does not keep the others from being asked."""
    answered: dict[str, T] = {}
    problems: dict[str, errors.TidelogError] = {}
    wanted = list(dict.fromkeys(group_ids))

    def left() -> list[str]:
        return [group_id for group_id in wanted if group_id not in answered and group_id not in problems]

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
                    answered[group] = answer
                elif answer.retriable:
                    passing = answer
                else:
                    problems[group] = answer
        if passing is not None:
            raise passing

    try:
        await cluster.retrying(purpose, ask_the_rest, timeout_ms)
    except errors.TidelogError as problem:
        problems |= dict.fromkeys(left(), problem)
    return answered, problems


def offsets_by_group(
    groups: Iterable[G], read: Callable[[G], dict[TopicPartition, T]]
) -> dict[str, dict[TopicPartition, T] | errors.TidelogError]:
    """From the groups of an answer, each read with `read`; a group that is gone has no offsets."""
    offsets: dict[str, dict[TopicPartition, T] | errors.TidelogError] = {}
    for group in groups:
        try:
            offsets[group.group_id] = read(group)
        except errors.GroupIdNotFound:
            offsets[group.group_id] = {}
        except errors.TidelogError as problem:
            offsets[group.group_id] = problem
    return offsets


async def _coordinators(
    cluster: Cluster, groups: Sequence[str]
) -> tuple[dict[Address, list[str]], dict[str, errors.TidelogError]]:
    connection = await cluster.any()
    version = connection.version_of(FindCoordinatorRequest)
    groups_by_address: dict[Address, list[str]] = {}
    problems: dict[str, errors.TidelogError] = {}
    if version < KEYS_VERSION_MIN:
        for group in groups:
            try:
                address = await CoordinatorLookup(cluster, CoordinatorType.GROUP, group).address()
                groups_by_address.setdefault(address, []).append(group)
            except errors.TidelogError as problem:
                problems[group] = problem
        return groups_by_address, problems
    request = FindCoordinatorRequest(key_type=CoordinatorType.GROUP, coordinator_keys=list(groups))
    answer = await connection.ask(request, FindCoordinatorResponse, version=version)
    for coordinator in answer.coordinators:
        if coordinator.error_code == errors.NONE:
            groups_by_address.setdefault(Address(coordinator.host, coordinator.port), []).append(
                coordinator.key
            )
        else:
            subject = f"the coordinator of group {coordinator.key!r}"
            problems[coordinator.key] = problem_of(coordinator.error_code, subject, coordinator.error_message)
    return groups_by_address, problems
