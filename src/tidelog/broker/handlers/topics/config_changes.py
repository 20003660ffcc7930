"""What IncrementalAlterConfigs and AlterConfigs have in common: one resource, one change of its settings.

Error codes are Kafka's: INVALID_CONFIG for a topic's wrong value, INVALID_REQUEST for a broker's.  A value that Kafka
would act on and Tidelog does not is INVALID_CONFIG everywhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tidelog import errors
from tidelog.broker import loggers
from tidelog.broker.services import Context
from tidelog.broker.telemetry.subscriptions import check_subscription
from tidelog.config import BROKER_SETTINGS, TOPIC_SETTINGS, BrokerConfig
from tidelog.config.broker import HTTP_LISTENER, find_broker_setting
from tidelog.config.describe import describe_broker, describe_topic
from tidelog.config.listener_security import PREFIX
from tidelog.config.setting import UnknownSetting
from tidelog.config.tables.groups import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from tidelog.metadata.cluster_min_isr import MIN_ISR, check_min_isr
from tidelog.metadata.config_alterations import Action, Alteration, altered
from tidelog.metadata.topics.names import check_topic_name
from tidelog.net.certificate_names import check_change
from tidelog.net.tls_files import names_in_keystore, server_context
from tidelog.types import NodeId

OF_ALL_BROKERS = ("max.connections", "max.connection.creation.rate")
"""What one listener of all brokers may have in common while they run."""
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

Change = Callable[[Mapping[str, str]], dict[str, str]]


async def alter(
    kind: int, name: str, wanted: list[Alteration], context: Context, validate_only: bool
) -> None:
    """All of `wanted`, or nothing and an error that says why."""
    config = context.services.config()
    if kind == TOPIC:
        overrides = topic_overrides(name, context)
        effective = {entry.name: entry.value for entry in describe_topic(overrides, config)}

        def change_topic(current: Mapping[str, str]) -> dict[str, str]:
            return altered(current, wanted, TOPIC_SETTINGS, effective, "topic setting")

        await context.services.controller.alter_topic_configs(name, change_topic, validate_only)
    elif kind == BROKER:
        held = {entry.name: entry.value for entry in describe_broker(config)}

        def change_broker(current: Mapping[str, str]) -> dict[str, str]:
            settings = BROKER_SETTINGS | {
                alteration.name: find_broker_setting(alteration.name)
                for alteration in wanted
                if alteration.name.startswith(PREFIX)
            }
            return altered(current, wanted, settings, held, "setting")

        deleted = {alteration.name for alteration in wanted if alteration.action is Action.DELETE}
        check_min_isr(name, {alteration.name for alteration in wanted}, deleted)
        kept = [alteration.name for alteration in wanted if alteration.action is not Action.DELETE]
        await _alter_broker(name, kept, change_broker, context, validate_only)
    elif kind == LOGGER:
        check_broker(name, context)
        for alteration in wanted:
            if alteration.action not in (Action.SET, Action.DELETE):
                raise errors.InvalidRequest(
                    f"{alteration.action.name} operation is not allowed for the BROKER_LOGGER resource"
                )
        loggers.alter(
            [
                (alteration.name, None if alteration.action is Action.DELETE else alteration.value)
                for alteration in wanted
            ],
            validate_only,
        )
    elif kind == GROUP:
        check_group_name(name)

        def change_group(current: Mapping[str, str]) -> dict[str, str]:
            return altered(current, wanted, GROUP_SETTINGS, {}, "group setting")

        await context.services.controller.alter_group_configs(name, change_group, validate_only)
    else:
        check_subscription_name(kind, name)

        def change_subscription(current: Mapping[str, str]) -> dict[str, str]:
            after = altered(current, wanted, CLIENT_METRICS_SETTINGS, {}, "client metrics setting")
            check_subscription(after)
            return after

        controller = context.services.controller
        await controller.alter_group_configs(name, change_subscription, validate_only, client_metrics=True)


async def replace(
    kind: int, name: str, values: dict[str, str], context: Context, validate_only: bool
) -> None:
    """The settings of a resource become `values`; all others go back to their defaults."""
    if kind == TOPIC:
        topic_overrides(name, context)
        controller = context.services.controller
        await controller.alter_topic_configs(name, lambda _: values, validate_only)
    elif kind == BROKER:
        check_min_isr(name, values, {MIN_ISR} - values.keys())
        await _alter_broker(name, values, lambda _: values, context, validate_only)
    elif kind == GROUP:
        check_group_name(name)
        await context.services.controller.alter_group_configs(name, lambda _: values, validate_only)
    else:
        check_subscription_name(kind, name)
        check_subscription(values)
        controller = context.services.controller
        await controller.alter_group_configs(name, lambda _: values, validate_only, client_metrics=True)


def topic_overrides(topic: str, context: Context) -> Mapping[str, str]:
    check_topic_name(topic)
    image = context.services.image()
    if topic not in image.topics:
        raise errors.UnknownTopicOrPartition(f"The topic '{topic}' does not exist.")
    return image.topic_overrides(topic)


def check_broker(
    name: str, context: Context, kind: str = "Node id", expected: str = "expected {}, but received"
) -> NodeId:
    """`kind` and `expected`: Apache Kafka's words in the request at hand."""
    me = context.services.node_id
    if name != str(me):
        if not name.isdecimal():
            raise errors.InvalidRequest(f"{kind} must be an integer, but it is: {name}")
        raise errors.InvalidRequest(f"Unexpected broker id, {expected.format(me)} {name}")
    return me


async def _alter_broker(
    name: str, keys: Collection[str], change: Change, context: Context, validate_only: bool
) -> None:
    node = check_broker(name, context) if name else None
    config = context.services.config()
    for key in keys:
        if not find_broker_setting(key).dynamic:
            raise errors.InvalidRequest(f"Cannot update these configs dynamically: [{key}]")
        if key.startswith(PREFIX):
            _check_override(key, config, node)

    def checked(current: Mapping[str, str]) -> dict[str, str]:
        after = change(current)
        if any("ssl." in key for key in {*after} ^ {*current} | {*keys}):
            _check_certificates(config, node, after)
        return after

    try:
        await context.services.controller.alter_broker_configs(node, checked, validate_only)
    except UnknownSetting:
        raise
    except errors.InvalidConfig as problem:
        raise errors.InvalidRequest(str(problem)) from problem


def _check_override(key: str, config: BrokerConfig, node: NodeId | None) -> None:
    listener, _, setting = key.removeprefix(PREFIX).partition(".")
    if node is None and setting not in OF_ALL_BROKERS:
        raise errors.InvalidRequest(
            f"{key} cannot be set for all brokers, since their files and listeners may differ: name a broker"
        )
    if (
        listener not in [known_listener.name.lower() for known_listener in config.listeners]
        and listener != HTTP_LISTENER
    ):
        raise errors.InvalidRequest(f"{key}: this broker has no listener {listener.upper()}")


def _check_certificates(config: BrokerConfig, node: NodeId | None, after: Mapping[str, str]) -> None:
    """Loads what the settings after the change name: a certificate that cannot be read is refused and never in use."""
    dynamic_all, dynamic_here = (after, config.dynamic_here) if node is None else (config.dynamic_all, after)
    wanted = BrokerConfig.of(config.given, dynamic_all, dynamic_here)
    pairs = [(config.security.get(name), security) for name, security in wanted.security.items()]
    for before, security in (*pairs, (config.http_security, wanted.http_security)):
        if security.encrypts:
            server_context(security.tls)
            if before is not None and before.tls != security.tls:
                check_change(names_in_keystore(before.tls), names_in_keystore(security.tls), security.tls)


def check_group_name(name: str) -> None:
    if not name:
        raise errors.InvalidRequest("Default group resources are not allowed.")


def check_subscription_name(kind: int, name: str) -> None:
    if kind != CLIENT_METRICS:
        raise errors.InvalidRequest(f"Unknown resource type {kind}")
    if not name:
        raise errors.InvalidRequest("Subscription name can't be empty")
