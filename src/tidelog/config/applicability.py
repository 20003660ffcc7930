"""Settings of a file made for Apache Kafka that have no effect here: unknown ones, and listeners of KRaft controllers.

Pure.  `BrokerConfig.of` leaves them out; `settings_without_effect` has a line about each for the log of a start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.config.listener_security import PREFIX, override_setting
from tidelog.config.setting import Setting, unknown
from tidelog.errors import InvalidConfig

CONTROLLER_LISTENERS = "controller.listener.names"
ROLES = "process.roles"


def known_settings(given: Mapping[str, str], settings: Mapping[str, Setting]) -> dict[str, str]:
    return {name: text for name, text in given.items() if _is_known(name, settings)}


def _is_known(name: str, settings: Mapping[str, Setting]) -> bool:
    if name.startswith(PREFIX):
        return override_setting(name.removeprefix(PREFIX).partition(".")[2], settings) is not None
    return name in settings


def without_controllers(given: dict[str, str]) -> dict[str, str]:
    """Listeners that `controller.listener.names` names are not opened, and their settings do not count."""
    roles = _entries(given.get(ROLES, "broker"))
    if roles and "broker" not in roles:
        raise InvalidConfig(
            f"{ROLES} is {given[ROLES]!r}, but a Tidelog process is always a broker: there are no controllers apart from "
            "brokers, so leave this process out"
        )
    controllers = {name.upper() for name in _entries(given.get(CONTROLLER_LISTENERS, ""))}
    if not controllers:
        return given
    kept = {name: text for name, text in given.items() if _listener_of(name) not in controllers}
    for name in ("listeners", "advertised.listeners"):
        if name in kept:
            entries = [
                entry for entry in _entries(kept[name]) if entry.partition(":")[0].upper() not in controllers
            ]
            kept[name] = ",".join(entries)
    if not kept.get("advertised.listeners", "-"):
        del kept["advertised.listeners"]
    return kept


def _listener_of(name: str) -> str | None:
    return name.removeprefix(PREFIX).partition(".")[0].upper() if name.startswith(PREFIX) else None


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def settings_without_effect(
    given: Mapping[str, str], settings: Mapping[str, Setting]
) -> Iterator[tuple[bool, str]]:
    """(whether it deserves a warning, a line for the log): unknown settings, then those that are not applicable."""
    for name in given:
        if not _is_known(name, settings):
            text = unknown(name, settings, "setting")
            yield True, f"{text}{'' if text.endswith('?') else '.'} It has no effect."
    controllers = _entries(given.get(CONTROLLER_LISTENERS, ""))
    if controllers:
        yield (
            False,
            f"{CONTROLLER_LISTENERS}: {', '.join(controllers)} is not opened: brokers elect their controller through etcd.",
        )
    for name, text in given.items():
        setting = settings.get(name)
        if setting is None and name.startswith(PREFIX):
            setting = override_setting(name.removeprefix(PREFIX).partition(".")[2], settings)
        if setting is not None and setting.why_not:
            value = "(hidden)" if setting.sensitive else text
            yield False, f"{name}={value} has no effect. {setting.why_not}"
