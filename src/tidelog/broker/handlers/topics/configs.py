"""DescribeConfigs (api 32), versions 1-4; AlterConfigs (api 33), versions 0-2; IncrementalAlterConfigs (api 44),
versions 0-1; ListConfigResources (api 74), versions 0-1.

Resources are topics, groups, subscriptions of client metrics, brokers (a number, or empty for all) and this broker's
loggers.  Other brokers are
not asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from tidelog import errors
from tidelog.broker import loggers
from tidelog.broker.handlers.topics import config_changes
from tidelog.broker.handlers.topics.config_changes import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    TOPIC,
    check_broker,
    check_group_name,
    topic_overrides,
)
from tidelog.broker.services import Context
from tidelog.config.damaged_partitions import DAMAGED, show_damaged
from tidelog.config.describe import (
    DescribedSetting,
    SettingSource,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from tidelog.config.setting import SettingKind
from tidelog.metadata.config_alterations import Action, Alteration
from tidelog.metadata.image.image import NO_CONFIGS
from tidelog.metadata.tenants import ceilings_of, exceeds
from tidelog.storage.integrity.damaged_logs import damaged_logs
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

DAMAGED_DOC = "Partitions whose logs on this broker have damaged records, with the offsets."

# Describing


def describe_configs(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    response = DescribeConfigsResponse()
    for resource in request.resources:
        result = DescribeConfigsResult(
            resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            result.configs = [_told(entry, request) for entry in _entries(resource, context)]
        except errors.TidelogError as problem:
            result.error_code, result.error_message = problem.code, str(problem)
        response.results.append(result)
    return response


def _entries(resource: DescribeConfigsResource, context: Context) -> Iterable[DescribedSetting]:
    kind, name = resource.resource_type, resource.resource_name
    keys: Collection[str] | None = resource.configuration_keys
    config = context.services.config()
    if kind == TOPIC:
        described = describe_topic(topic_overrides(name, context), config, keys)
        ceilings = ceilings_of(context.services.image(), name)
        return [_within(entry, ceilings) for entry in described] if ceilings else described
    if kind == BROKER:
        if not name:
            return describe_all_brokers(config, keys)
        check_broker(name, context, "Broker id", "expected {} or empty string, but received")
        return [*describe_broker(config, keys), *_facts(keys, context)]
    if kind == LOGGER:
        check_broker(name, context, "Broker id", "expected {} but received")
        return loggers.described(keys)
    if kind == CLIENT_METRICS:
        if not name:
            raise errors.InvalidRequest("a client metrics subscription has a name")
        stored = context.services.image().client_metrics.get(name, NO_CONFIGS)
        return describe_client_metrics(stored.values, keys)
    if kind == GROUP:
        check_group_name(name)
        return describe_group(context.services.image().group_overrides(name), config, keys)
    raise errors.InvalidRequest(f"Unknown resource type {kind}")


def _within(entry: DescribedSetting, ceilings: Mapping[str, int]) -> DescribedSetting:
    """The value in effect: at most what the topic's tenant allows."""
    ceiling = ceilings.get(entry.name)
    if ceiling is None or not exceeds(int(entry.value or -1), ceiling):
        return entry
    return replace(entry, value=str(ceiling))


def _facts(keys: Collection[str] | None, context: Context) -> Iterable[DescribedSetting]:
    """Facts about a broker, shown as settings that cannot be changed; only requests that name them see them."""
    if keys is not None and DAMAGED in keys:
        value = show_damaged(damaged_logs(context.services.log_dirs.dirs))
        yield DescribedSetting(
            DAMAGED, value, SettingSource.DEFAULT, True, False, SettingKind.STRING, DAMAGED_DOC, ()
        )


def _told(entry: DescribedSetting, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
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
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    response = incremental.IncrementalAlterConfigsResponse()
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        answer = incremental.AlterConfigsResourceResponse(
            resource_type=kind, resource_name=name, error_message=None
        )
        try:
            _check_resource(kind, name, counts[kind, name], [entry.name for entry in resource.configs])
            wanted = [_alteration(entry) for entry in resource.configs]
            await config_changes.alter(kind, name, wanted, context, request.validate_only)
        except errors.TidelogError as problem:
            answer.error_code, answer.error_message = problem.code, str(problem)
        response.responses.append(answer)
    return response


def _alteration(config: incremental.AlterableConfig) -> Alteration:
    try:
        action = Action(config.config_operation)
    except ValueError:
        raise errors.InvalidRequest(f"there is no operation {config.config_operation} on settings") from None
    if config.value is None and action is not Action.DELETE:
        raise errors.InvalidRequest(f"Null value not supported for : {config.name}")
    return Alteration(config.name, action, config.value)


async def alter_configs(request: legacy.AlterConfigsRequest, context: Context) -> legacy.AlterConfigsResponse:
    """The old way: what is not named goes back to its default."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    response = legacy.AlterConfigsResponse()
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        answer = legacy.AlterConfigsResourceResponse(
            resource_type=kind, resource_name=name, error_message=None
        )
        try:
            _check_resource(kind, name, counts[kind, name], [entry.name for entry in resource.configs])
            values = {entry.name: _value(entry) for entry in resource.configs}
            await config_changes.replace(kind, name, values, context, request.validate_only)
        except errors.TidelogError as problem:
            answer.error_code, answer.error_message = problem.code, str(problem)
        response.responses.append(answer)
    return response


def _value(config: legacy.AlterableConfig) -> str:
    if config.value is None:
        raise errors.InvalidRequest(f"Null value not supported for : {config.name}")
    return config.value


def _check_resource(kind: int, name: str, count: int, keys: list[str]) -> None:
    if count > 1:
        raise errors.InvalidRequest(f"resource {name!r} is in the request twice")
    if len(set(keys)) != len(keys):
        raise errors.InvalidRequest("a setting is changed twice in one request")
    if kind == TOPIC and not name:
        raise errors.InvalidRequest("a topic resource has a name: there are no settings of all topics")


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
        CLIENT_METRICS: sorted(image.client_metrics),
        GROUP: sorted(image.group_configs),
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
