"""The cluster's `min.insync.replicas`: one value for all brokers, as in Apache Kafka with eligible leader replicas (ELR).

A member that leaves too small an ISR stays an eligible leader.  The leader and the controller must therefore agree on
what too small is, so no broker has a value of its own: the first broker of a cluster stores the value of its configuration
as the dynamic default of all brokers, and from then on only that value counts."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from tidelog.config import BrokerConfig
from tidelog.errors import InvalidConfig
from tidelog.metadata import records
from tidelog.metadata.access.access_controller import Swap
from tidelog.metadata.image.image import NO_CONFIGS, Image
from tidelog.metadata.store import Compare, Delete, Operation, Put

log = logging.getLogger("tidelog.metadata")

MIN_ISR = "min.insync.replicas"


def stored(image: Image, config: BrokerConfig) -> Swap | None:
    """What gives the cluster its value and takes the brokers' own values away; None if nothing is left to do."""
    swap = Swap([], [])
    for node, configs in image.broker_configs.items():
        if node is not None and MIN_ISR in configs.values:
            rest = {name: value for name, value in configs.values.items() if name != MIN_ISR}
            key = records.broker_config_key(node)
            swap.compare.append(Compare(key, configs.revision))
            swap.then.append(_put(key, rest))
    common = image.broker_configs.get(None, NO_CONFIGS)
    if MIN_ISR not in common.values:
        key = records.broker_config_key(None)
        swap.compare.append(Compare(key, common.revision))
        swap.then.append(
            _put(key, {**common.values, MIN_ISR: str(config.topic_defaults.min_insync_replicas)})
        )
    return swap if swap.then else None


def _put(key: str, values: Mapping[str, str]) -> Operation:
    return Put(key, records.encode_configs(values)) if values else Delete(key)


def warn(image: Image, config: BrokerConfig) -> None:
    value = image.broker_overrides(None)[MIN_ISR]
    own = config.topic_defaults.min_insync_replicas
    if MIN_ISR in config.given and str(own) != value:
        log.warning(
            "%s=%d in this broker's configuration has no effect: the cluster's value is %s. "
            "To change it: tidelog configs set broker "
            " %s=%d",
            MIN_ISR,
            own,
            value,
            MIN_ISR,
            own,
        )


def check_min_isr(broker: str, altered: Collection[str], deleted: Collection[str]) -> None:
    """`broker`: the broker whose settings change, or "" for the settings of all brokers.  The words are Kafka's."""
    if broker and MIN_ISR in altered:
        raise InvalidConfig(f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.")
    if not broker and MIN_ISR in deleted:
        raise InvalidConfig(f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.")
