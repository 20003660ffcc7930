"""The shared mapping against a plain dict."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.metadata.image.sharded_map import ShardedMap

keys = st.sampled_from([f"topic-{number}" for number in range(12)])
steps = st.lists(st.dictionaries(keys, st.none() | st.integers(0, 3), max_size=6), max_size=10)


@settings(deadline=None)
@given(steps)
def test_it_holds_what_a_dict_holds_and_old_versions_do_not_change(
    changes: list[dict[str, int | None]],
) -> None:
    model: dict[str, int] = {}
    mapping: ShardedMap[str, int] = ShardedMap()
    versions = [(mapping, dict(model))]
    for step in changes:
        mapping = mapping.changed(step)
        for key, value in step.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        versions.append((mapping, dict(model)))
    for version, expected in versions:
        assert dict(version) == expected
        assert len(version) == len(expected)
        assert version == ShardedMap(expected.items())
        assert all(version.get(key) == expected.get(key) for key in ("topic-0", "topic-11", "other"))


@settings(deadline=None)
@given(st.sets(st.integers(0, 2**128 - 1), max_size=50))
def test_topic_ids_are_keys_too(numbers: set[int]) -> None:
    mapping = ShardedMap((UUID(int=number), number) for number in numbers)
    assert all(mapping[UUID(int=number)] == number for number in numbers)
    assert sorted(mapping.values()) == sorted(numbers)
