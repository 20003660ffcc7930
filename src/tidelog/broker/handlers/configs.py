"""DescribeConfigs (api 32), versions 1-4; AlterConfigs (api 33), versions 0-2; IncrementalAlterConfigs (api 44),
versions 0-1; ListConfigResources (api 74), versions 0-1.

Resources are topics, brokers (a number, or empty for all of them) and this broker's loggers.  Settings of groups and
client metrics are described with their defaults and cannot be changed yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

from tidelog import errors
from tidelog.broker import loggers
from tidelog.broker.services import Context
from tidelog.config import BROKER_SETTINGS, TOPIC_SETTINGS
from tidelog.config.describe import (
    Entry,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from tidelog.metadata.alterations import Action, Alteration, altered
from tidelog.metadata.names import check_topic_name
from tidelog.types import NodeId
from tidelog.wire.messages import alter_configs as legacy
from tidelog.wire.messages import incremental_alter_configs as incremental
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tidelog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

Change = Callable[[Mapping[str, str]], dict[str, str]]


# Describing


def describe_configs(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    response = DescribeConfigsResponse()
    for resource in request.resources:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
        )
        try:
            result.configs = [_told(entry, request) for entry in _entries(resource, context)]
        except errors.TidelogError as problem:
            result.error_code, result.error_message = problem.code, str(problem)
        response.results.append(result)
    return response


def _entries(resource: DescribeConfigsResource, context: Context) -> Iterable[Entry]:
    kind, name = resource.resource_type, resource.resource_name
    keys: Collection[str] | None = resource.configuration_keys
    config = context.services.config()
    if kind == TOPIC:
        return describe_topic(_overrides(name, context), config, keys)
    if kind == BROKER:
        if not name:
            return describe_all_brokers(config, keys)
        _check_broker(name, context)
        return describe_broker(config, keys)
    if kind == LOGGER:
        _check_broker(name, context)
        return loggers.described(keys)
    if kind == CLIENT_METRICS:
        if not name:
            raise errors.InvalidRequest("a client metrics subscription has a name")
        return describe_client_metrics(keys)
    if kind == GROUP:
        if not name:
            raise errors.InvalidRequest("a group has a name")
        return describe_group(keys)
    raise errors.InvalidRequest(f"there are no settings for resources of type {kind}")


def _overrides(topic: str, context: Context) -> Mapping[str, str]:
    check_topic_name(topic)
    image = context.services.image()
    if topic not in image.topics:
        raise errors.UnknownTopicOrPartition(f"no topic {topic!r} here: check the name, or create it")
    return image.topic_overrides(topic)


def _check_broker(name: str, context: Context) -> NodeId:
    me = context.services.node_id
    if name != str(me):
        raise errors.InvalidRequest(f"this is broker {me}: ask broker {name!r} itself")
    return me


def _told(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
            for one in entry.synonyms
        ]
        if request.include_synonyms
        else [],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )


# Altering


async def incremental_alter_configs(
    request: incremental.IncrementalAlterConfigsRequest, context: Context
) -> incremental.IncrementalAlterConfigsResponse:
    twice = _asked_twice((one.resource_type, one.resource_name) for one in request.resources)
    response = incremental.IncrementalAlterConfigsResponse()
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        answer = incremental.AlterConfigsResourceResponse(
            resource_type=kind, resource_name=name, error_message=None
        )
        try:
            _refuse_twice((kind, name), twice)
            wanted = _alterations(resource.configs)
            await _alter(kind, name, wanted, context, request.validate_only)
        except errors.TidelogError as problem:
            answer.error_code, answer.error_message = problem.code, str(problem)
        response.responses.append(answer)
    return response


def _alterations(configs: Iterable[incremental.AlterableConfig]) -> list[Alteration]:
    wanted = []
    seen = set()
    for one in configs:
        if one.name in seen:
            raise errors.InvalidRequest(f"{one.name} is changed twice in one request")
        seen.add(one.name)
        try:
            action = Action(one.config_operation)
        except ValueError:
            raise errors.InvalidRequest(f"there is no operation {one.config_operation} on settings") from None
        wanted.append(Alteration(one.name, action, one.value))
    return wanted


async def _alter(
    kind: int, name: str, wanted: list[Alteration], context: Context, validate_only: bool
) -> None:
    services = context.services
    config = services.config()
    if kind == TOPIC:
        overrides = _overrides(name, context)
        effective = {entry.name: entry.value for entry in describe_topic(overrides, config)}

        def change_topic(current: Mapping[str, str]) -> dict[str, str]:
            return altered(current, wanted, TOPIC_SETTINGS, effective, "topic setting")

        await services.controller.alter_topic_configs(name, change_topic, validate_only)
    elif kind == BROKER:
        effective = {entry.name: entry.value for entry in describe_broker(config)}

        def change_broker(current: Mapping[str, str]) -> dict[str, str]:
            return altered(current, wanted, BROKER_SETTINGS, effective, "setting")

        await _alter_broker(name, (one.name for one in wanted), change_broker, context, validate_only)
    elif kind == LOGGER:
        _check_broker(name, context)
        loggers.alter(
            [(one.name, None if one.action is Action.DELETE else one.value) for one in wanted], validate_only
        )
    else:
        raise _cannot_alter(kind)


def _alter_broker(
    name: str, keys: Iterable[str], change: Change, context: Context, validate_only: bool
) -> Awaitable[None]:
    node = _check_broker(name, context) if name else None
    for key in keys:
        setting = BROKER_SETTINGS.get(key)
        if setting is not None and not setting.dynamic:
            raise errors.InvalidRequest(f"{key} cannot be changed while the broker runs: set it at the start")
    return context.services.controller.alter_broker_configs(node, change, validate_only)


def _cannot_alter(kind: int) -> errors.TidelogError:
    if kind in (GROUP, CLIENT_METRICS):
        what = "groups" if kind == GROUP else "client metrics"
        return errors.InvalidConfig(f"settings of {what} cannot be changed yet")
    return errors.InvalidRequest(f"there are no settings for resources of type {kind}")


async def alter_configs(request: legacy.AlterConfigsRequest, context: Context) -> legacy.AlterConfigsResponse:
    """The old way: what is not named goes back to its default."""
    twice = _asked_twice((one.resource_type, one.resource_name) for one in request.resources)
    response = legacy.AlterConfigsResponse()
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        answer = legacy.AlterConfigsResourceResponse(
            resource_type=kind, resource_name=name, error_message=None
        )
        try:
            _refuse_twice((kind, name), twice)
            await _replace(kind, name, resource.configs, context, request.validate_only)
        except errors.TidelogError as problem:
            answer.error_code, answer.error_message = problem.code, str(problem)
        response.responses.append(answer)
    return response


async def _replace(
    kind: int, name: str, configs: list[legacy.AlterableConfig], context: Context, validate_only: bool
) -> None:
    values: dict[str, str] = {}
    for one in configs:
        if one.value is None:
            raise errors.InvalidConfig(f"{one.name} has no value: leave it out to get the default")
        values[one.name] = one.value

    def change(_: Mapping[str, str]) -> dict[str, str]:
        return values

    if kind == TOPIC:
        _overrides(name, context)
        await context.services.controller.alter_topic_configs(name, change, validate_only)
    elif kind == BROKER:
        await _alter_broker(name, values, change, context, validate_only)
    else:
        raise _cannot_alter(kind)


def _asked_twice(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    return {resource for resource, count in Counter(resources).items() if count > 1}


def _refuse_twice(resource: tuple[int, str], twice: set[tuple[int, str]]) -> None:
    if resource in twice:
        raise errors.InvalidRequest(f"resource {resource[1]!r} is in the request twice")


# Listing


def list_config_resources(
    request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse:
    """Version 0 is about client metrics only; from version 1 on, no types stand for all of them."""
    image = context.services.image()
    names: dict[int, list[str]] = {
        TOPIC: list(image.topics),
        BROKER: [str(node) for node in sorted(image.brokers)],
        LOGGER: [str(node) for node in sorted(image.brokers)],
        CLIENT_METRICS: [],
        GROUP: [],
    }
    kinds = list(request.resource_types) if context.version >= 1 else [CLIENT_METRICS]
    if any(kind not in names for kind in kinds):
        return ListConfigResourcesResponse(error_code=errors.UnsupportedVersion.code)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in (kinds or names)
            for name in names[kind]
        ]
    )
