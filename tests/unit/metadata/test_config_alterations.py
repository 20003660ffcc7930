from __future__ import annotations

import pytest

from tidelog.config import TOPIC_SETTINGS
from tidelog.errors import InvalidConfig, InvalidRequest
from tidelog.metadata.config_alterations import Action, Alteration, altered

POLICY = "cleanup.policy"


def after(current: dict[str, str], *wanted: Alteration) -> dict[str, str]:
    return altered(current, wanted, TOPIC_SETTINGS, {POLICY: "delete"}, "topic setting")


def test_values_are_set_and_deleted() -> None:
    assert after({"retention.ms": "1"}, Alteration("segment.ms", Action.SET, "2")) == {
        "retention.ms": "1",
        "segment.ms": "2",
    }
    assert after({"retention.ms": "1"}, Alteration("retention.ms", Action.DELETE, None)) == {}
    assert after({}, Alteration("no.such", Action.DELETE, None)) == {}


def test_a_list_starts_as_it_is_in_effect() -> None:
    assert after({}, Alteration(POLICY, Action.APPEND, "compact")) == {POLICY: "delete,compact"}
    assert after({}, Alteration(POLICY, Action.SUBTRACT, "delete")) == {POLICY: ""}


def test_a_list_holds_each_entry_once() -> None:
    assert after({POLICY: "compact"}, Alteration(POLICY, Action.APPEND, "compact, delete")) == {
        POLICY: "compact,delete"
    }
    assert after({POLICY: "compact,delete"}, Alteration(POLICY, Action.SUBTRACT, "delete,other")) == {
        POLICY: "compact"
    }


@pytest.mark.parametrize("action", [Action.APPEND, Action.SUBTRACT])
def test_only_lists_can_be_added_to(action: Action) -> None:
    with pytest.raises(InvalidConfig, match="because its type is not LIST"):
        after({}, Alteration("retention.ms", action, "1"))
    with pytest.raises(InvalidConfig, match="Unknown topic config name: "):
        after({}, Alteration("no.such", action, "1"))


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Null value not supported"):
        after({}, Alteration("retention.ms", Action.SET, None))


def test_what_was_there_is_not_changed_in_place() -> None:
    current = {POLICY: "delete"}
    after(current, Alteration(POLICY, Action.SET, "compact"))
    assert current == {POLICY: "delete"}
