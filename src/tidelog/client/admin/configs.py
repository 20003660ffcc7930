"""Describes and alters the settings of topics, brokers and groups.  `Admin` is the face of this."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from tidelog import errors
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.response_errors import problem_of, raise_all
from tidelog.net.requester import Requester
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_KINDS = {"topic": 2, "broker": 4, "group": 32}
_KIND_NAMES = {number: name for name, number in _KINDS.items()}
_SET, _DELETE = 0, 1


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class ConfigResource(NamedTuple):
    """`ConfigResource("topic", "orders")`, `("broker", "1")`, `("group", "billing")`; a broker without a name is all of
    them."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else "the brokers' defaults"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """`default` is what the value would be if nothing were set, None where the broker does not say: Kafka
    does not for settings that count in another unit on the broker, such as `retention.ms`.  A secret has no
    value."""

    name: str
    value: str | None
    source: ConfigSource
    default: str | None
    read_only: bool
    sensitive: bool
    documentation: str | None


def setting_text(name: str, value: object) -> str | None:
    """As brokers take it: numbers and truths are text there."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f"setting {name!r} must be text or a number, not {value!r} ({type(value).__name__})")


async def describe_configs(
    cluster: Cluster,
    resources: Sequence[ConfigResource],
    keys: Collection[str] | None,
    *,
    documentation: bool,
    timeout_ms: int,
) -> dict[ConfigResource, list[ConfigEntry]]:
    entries_by_resource: dict[ConfigResource, list[ConfigEntry]] = {}
    problems: list[errors.TidelogError] = []
    for group in _by_place(resources):
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(_kind(resource), resource.name, None if keys is None else list(keys))
                for resource in group
            ],
            include_synonyms=True,
            include_documentation=documentation,
        )

        async def ask(
            request: DescribeConfigsRequest = request, group: Sequence[ConfigResource] = group
        ) -> DescribeConfigsResponse:
            connection = await _place(cluster, group[0])
            return await connection.ask(request, DescribeConfigsResponse, timeout_ms=timeout_ms)

        answer = await cluster.retrying("DescribeConfigs", ask, timeout_ms)
        for result in answer.results:
            resource = ConfigResource(_KIND_NAMES.get(result.resource_type, "unknown"), result.resource_name)
            if result.error_code == errors.NONE:
                entries = sorted(result.configs, key=lambda entry: entry.name)
                entries_by_resource[resource] = [_entry(entry) for entry in entries]
            else:
                problems.append(_problem(result.error_code, resource, result.error_message))
    raise_all("some settings could not be described", problems)
    return entries_by_resource


async def alter_configs(
    cluster: Cluster,
    changes: Mapping[ConfigResource, Mapping[str, str | int | None]],
    *,
    validate_only: bool,
    timeout_ms: int,
) -> None:
    """A value of None takes the setting back to its default."""
    problems: list[errors.TidelogError] = []
    for group in _by_place(list(changes)):
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    _kind(resource), resource.name, [_change(*item) for item in changes[resource].items()]
                )
                for resource in group
            ],
            validate_only=validate_only,
        )

        async def ask(
            request: IncrementalAlterConfigsRequest = request, group: Sequence[ConfigResource] = group
        ) -> IncrementalAlterConfigsResponse:
            connection = await _place(cluster, group[0])
            answer = await connection.ask(request, IncrementalAlterConfigsResponse, timeout_ms=timeout_ms)
            if any(result.error_code == errors.NotController.code for result in answer.responses):
                await cluster.refresh(())
                raise errors.NotController()
            return answer

        answer = await cluster.retrying("IncrementalAlterConfigs", ask, timeout_ms)
        for result in answer.responses:
            if result.error_code != errors.NONE:
                resource = ConfigResource(
                    _KIND_NAMES.get(result.resource_type, "unknown"), result.resource_name
                )
                problems.append(_problem(result.error_code, resource, result.error_message))
    raise_all("some settings could not be changed", problems)


def _by_place(resources: Sequence[ConfigResource]) -> list[list[ConfigResource]]:
    """Requests for a broker's own settings go to that broker, each in a request of its own; all others go to any
    broker, in one request."""
    own = [[resource] for resource in resources if resource.kind == "broker" and resource.name]
    rest = [resource for resource in resources if not (resource.kind == "broker" and resource.name)]
    return [*own, *([rest] if rest else [])]


async def _place(cluster: Cluster, resource: ConfigResource) -> Requester:
    if resource.kind != "broker" or not resource.name:
        return await cluster.any()
    if not resource.name.isdecimal():
        raise errors.InvalidRequest(f"{resource.name!r} is not a broker id: it must be a number")
    node = int(resource.name)
    if node not in cluster.topology.nodes:
        nodes = ", ".join(map(str, sorted(cluster.topology.nodes)))
        raise errors.InvalidRequest(f"there is no broker {node}: the cluster has {nodes}")
    return await cluster.node(node)


def _kind(resource: ConfigResource) -> int:
    if resource.kind not in _KINDS:
        raise ValueError(f"{resource.kind!r} has no settings here: use {' or '.join(_KINDS)}")
    return _KINDS[resource.kind]


def _change(name: str, value: str | int | None) -> AlterableConfig:
    return AlterableConfig(name, _DELETE if value is None else _SET, setting_text(name, value))


def _entry(result: DescribeConfigsResourceResult) -> ConfigEntry:
    defaults = [synonym.value for synonym in result.synonyms if synonym.source == ConfigSource.DEFAULT]
    is_default = result.config_source == ConfigSource.DEFAULT
    is_known_source = result.config_source in set(ConfigSource)
    return ConfigEntry(
        name=result.name,
        value=result.value,
        source=ConfigSource(result.config_source) if is_known_source else ConfigSource.UNKNOWN,
        default=defaults[0] if defaults else result.value if is_default else None,
        read_only=result.read_only,
        sensitive=result.is_sensitive,
        documentation=result.documentation or None,
    )


def _problem(code: int, resource: ConfigResource, message: str | None) -> errors.TidelogError:
    if code == errors.UnknownTopicOrPartition.code:
        return errors.UnknownTopicOrPartition(f"there is no {resource}: check the name, or create it")
    return problem_of(code, str(resource), message)
