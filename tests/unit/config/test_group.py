from __future__ import annotations

import pytest

from tidelog.config import BrokerConfig, GroupConfig
from tidelog.config.group import check_group, duration_ms
from tidelog.config.tables.groups import GROUP_SETTINGS
from tidelog.errors import InvalidConfig


def test_a_group_without_settings_has_the_brokers() -> None:
    broker = BrokerConfig.of({"group.consumer.session.timeout.ms": "50000"})
    assert GroupConfig.of({}, BrokerConfig()) == GroupConfig()
    assert GroupConfig.of({}, broker).consumer_session_timeout_ms == 50_000
    own = GroupConfig.of({"consumer.session.timeout.ms": "55000"}, broker)
    assert own.consumer_session_timeout_ms == 55_000


def test_the_parsed_form_has_the_default_of_each_setting() -> None:
    config = GroupConfig()
    for setting in GROUP_SETTINGS.values():
        assert getattr(config, setting.attribute) == setting.default


def test_a_value_from_before_the_bounds_were_narrowed_is_drawn_into_them() -> None:
    broker = BrokerConfig.of({"group.consumer.max.session.timeout.ms": "50000"})
    config = GroupConfig.of({"consumer.session.timeout.ms": "60000"}, broker)
    assert config.consumer_session_timeout_ms == 50_000
    wide = BrokerConfig.of({"group.consumer.min.session.timeout.ms": "40000"})
    assert GroupConfig.of({"consumer.session.timeout.ms": "9"}, wide).consumer_session_timeout_ms == 40_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("consumer.assignment.interval.ms", "-1"),
        ("consumer.assignment.interval.ms", "15001"),
        ("share.auto.offset.reset", "by_duration:1h"),
        ("share.auto.offset.reset", "none"),
        ("no.such", "1"),
    ],
)
def test_what_the_broker_does_not_allow_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        check_group({name: value}, BrokerConfig())


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("p1dt2h3m4.5s", 93_784_500),
        ("PT0.001S", 1),
        ("-PT-5S", 5000),
        ("P1D", 86_400_000),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1h", "PT1H1D", "-PT1S", "PT-1S", "P1Y"])
def test_what_is_no_duration_back_from_now_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig):
        duration_ms(text)


@pytest.mark.parametrize(
    "given",
    [
        {"group.consumer.session.timeout.ms": "44000"},
        {"group.consumer.heartbeat.interval.ms": "4000"},
        {"group.consumer.min.session.timeout.ms": "70000"},
        {"group.consumer.max.assignment.interval.ms": "10"},
        {"group.consumer.assignors": ""},
        {"group.consumer.assignors": "sticky"},
        {
            "group.consumer.min.session.timeout.ms": "5000",
            "group.consumer.session.timeout.ms": "5000",
        },
    ],
)
def test_a_brokers_settings_of_groups_fit_together(given: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=r"group\.consumer"):
        BrokerConfig.of(given)
