"""DescribeCluster and UpdateFeatures.  The codes are those Apache Kafka 4.3.1 answered."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.unit.broker.admin import Admin, versions
from tidelog.errors import name_of
from tidelog.metadata.features import FINALIZED, SUPPORTED
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

pytestmark = pytest.mark.simulated


@pytest.mark.parametrize("version", versions(DescribeClusterRequest.API_KEY))
async def test_the_cluster_is_described(random: Random, version: int) -> None:
    admin = await Admin.start(random)
    await admin.node.join(2, "rack")
    answer = await admin.ask(DescribeClusterRequest(), version)
    assert (answer.error_code, answer.controller_id) == (0, 1)
    assert answer.cluster_id == admin.node.controller.image.cluster_id
    brokers = [(one.broker_id, one.host, one.port, one.rack) for one in answer.brokers]
    assert brokers == [(1, "127.0.0.1", 9092, None), (2, "127.0.0.1", 9094, "rack")]
    assert answer.cluster_authorized_operations == -(1 << 31)
    asked = await admin.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert asked.cluster_authorized_operations == 8096


async def test_endpoints_of_controllers_are_not_told(random: Random) -> None:
    admin = await Admin.start(random)
    for kind, error in ((2, "MISMATCHED_ENDPOINT_TYPE"), (3, "UNSUPPORTED_ENDPOINT_TYPE")):
        answer = await admin.ask(DescribeClusterRequest(endpoint_type=kind))
        assert (name_of(answer.error_code), answer.brokers) == (error, [])


def update(name: str, level: int, **options: Any) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, **options)


@pytest.mark.parametrize("version", versions(UpdateFeaturesRequest.API_KEY))
async def test_a_feature_can_be_set_to_the_level_it_has(random: Random, version: int) -> None:
    admin = await Admin.start(random)
    updates = [update(name, level) for name, level in FINALIZED.items()]
    answer = await admin.ask(UpdateFeaturesRequest(feature_updates=updates), version)
    assert answer.error_code == 0
    assert [one.error_code for one in answer.results] == ([0] * len(FINALIZED) if version < 2 else [])


@pytest.mark.parametrize(
    "wanted",
    [
        update("metadata.version", 31),
        update("metadata.version", 29, upgrade_type=3),
        update("metadata.version", -1),
        update("metadata.version", 30, upgrade_type=9),
        update("no.such", 1),
        update("", 1),
    ],
    ids=lambda wanted: f"{wanted.feature} {wanted.max_version_level}",
)
async def test_any_other_update_of_features_is_refused_as_a_whole(
    random: Random, wanted: FeatureUpdateKey
) -> None:
    admin = await Admin.start(random)
    good = update("metadata.version", 30)
    for version in (1, 2):
        answer = await admin.ask(UpdateFeaturesRequest(feature_updates=[good, wanted]), version)
        assert name_of(answer.error_code) == "INVALID_UPDATE_VERSION"
        assert answer.error_message and answer.results == []


def test_what_is_agreed_on_is_supported() -> None:
    for name, level in FINALIZED.items():
        low, high = SUPPORTED[name]
        assert low <= level <= high
