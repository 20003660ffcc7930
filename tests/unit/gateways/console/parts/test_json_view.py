from __future__ import annotations

from typing import Any

import pytest

from tidelog.gateways.console.parts.json_view import NODES_MAX, json_view


def test_objects_and_lists_fold_and_leaves_have_their_kind() -> None:
    view = json_view({"a": {"b": [1, "<x>", None, True, {}]}})
    assert view is not None
    assert view.count("<details open>") == 3 and view.count("<summary>") == 3
    assert " 1 field " in view and " 5 items " in view
    assert '<span class="json-string">&quot;&lt;x&gt;&quot;</span>' in view
    assert '<span class="json-number">1</span>' in view
    assert view.count('class="json-word"') == 3


def test_what_is_deep_is_closed() -> None:
    value: Any = 1
    for _ in range(6):
        value = [value]
    view = json_view(value)
    assert view is not None
    assert (view.count("<details open>"), view.count("<details>")) == (3, 3)


@pytest.mark.parametrize(
    "value",
    [1, "x", None, list(range(NODES_MAX + 1)), [[0] * 50 for _ in range(50)], {"a": [{"b": 1}] * NODES_MAX}],
)
def test_what_is_no_tree_or_too_large_has_no_view(value: Any) -> None:
    assert json_view(value) is None
