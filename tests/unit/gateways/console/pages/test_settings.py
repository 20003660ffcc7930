"""The line above a table of settings."""

from __future__ import annotations

from tidelog.client.admin.configs import ConfigEntry, ConfigSource
from tidelog.gateways.console.pages.settings import counts_text


def entry(name: str, source: ConfigSource) -> ConfigEntry:
    return ConfigEntry(name, "1", source, None, False, False, None)


def test_settings_of_the_configuration_file_are_counted() -> None:
    static = entry("a", ConfigSource.STATIC_BROKER)
    default, dynamic = entry("b", ConfigSource.DEFAULT), entry("c", ConfigSource.DYNAMIC_BROKER)
    text = counts_text([static, static, default, dynamic], "broker")
    assert text == "4 settings, 1 override, 2 from the broker's configuration"
    assert counts_text([default], "topic") == "1 setting, 0 overrides"
