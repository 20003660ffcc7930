"""The state that requests leave behind is the state that its records give again, compacted or not."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.coordination.records import CoordinatorRecord
from tidelog.registry import decisions
from tidelog.registry.formats import Formats
from tidelog.registry.records import JsonRecordTypes
from tidelog.registry.refusal import Refusal
from tidelog.registry.requests import SchemaRequest
from tidelog.registry.schema import Reference, Schema
from tidelog.registry.state import RegistryState

SUBJECTS = ["a", ":.x:a"]
SCHEMAS = [
    Schema(f'{{"type":"record","name":"R","fields":[{{"name":"f{at}","type":"int","default":0}}]}}')
    for at in range(4)
]
REFERRING = Schema(
    '{"type":"record","name":"Q","fields":[{"name":"r","type":"R"}]}', "AVRO", (Reference("R", "a", 1),)
)


def acts() -> st.SearchStrategy[Any]:
    subject = st.sampled_from(SUBJECTS)
    version = st.integers(1, 3)
    often = [
        st.tuples(st.just("register"), subject, st.sampled_from([*SCHEMAS, REFERRING])),
        st.tuples(st.just("delete_subject"), subject, st.booleans()),
        st.tuples(st.just("delete_version"), subject, version, st.booleans()),
    ]
    seldom = [
        st.tuples(st.just("set_config"), subject, st.sampled_from(["NONE", "FULL"])),
        st.tuples(st.just("set_mode"), subject, st.sampled_from(["READONLY", "READWRITE", "IMPORT"])),
        st.tuples(st.just("import"), subject, st.sampled_from(SCHEMAS), st.integers(1, 30)),
    ]
    return st.integers(0, 9).flatmap(lambda dice: st.one_of(*(seldom if dice == 0 else often)))


def decide(state: RegistryState, formats: Formats, act: Any) -> decisions.RegistryDecision:
    name, subject, *rest = act
    if name == "register":
        return decisions.register(state, formats, subject, SchemaRequest(rest[0]), False)
    if name == "import":
        return decisions.register(state, formats, subject, SchemaRequest(rest[0], rest[1]), False)
    if name == "set_config":
        return decisions.set_config(state, subject, {"compatibility": rest[0]})
    if name == "set_mode":
        return decisions.set_mode(state, subject, {"mode": rest[0]}, True)
    made: decisions.RegistryDecision = getattr(decisions, name)(state, subject, *rest)
    return made


def told(state: RegistryState) -> Any:
    """All that anybody can ask of it."""
    return (
        {name: sorted(versions.values()) for name, versions in state.subjects.items()},
        {
            name: (context.id_max, context.schemas, context.ids, context.users)
            for name, context in state.contexts.items()
        },
        state.configs,
        state.modes,
        {
            name: [
                [referrer.key for referrer in state.referrers(stored.key)]
                for stored in state.versions(name, True)
            ]
            for name in state.subjects
        },
    )


def loaded(log: list[tuple[bytes, bytes | None]]) -> RegistryState:
    kinds, state = JsonRecordTypes(), RegistryState()
    for key, value in log:
        entry = kinds.decode(key, value)
        assert isinstance(entry, CoordinatorRecord)
        state.replay(entry, -1)
    return state


def compacted(log: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes | None]]:
    last = {key: at for at, (key, _) in enumerate(log)}
    return [(key, value) for at, (key, value) in enumerate(log) if last[key] == at and value is not None]


@settings(max_examples=200)
@given(st.lists(acts(), min_size=5, max_size=25))
def test_the_log_gives_the_state_again_and_ids_are_never_reused(steps: list[Any]) -> None:
    state, formats, kinds = RegistryState(), Formats(), JsonRecordTypes()
    log: list[tuple[bytes, bytes | None]] = []
    given: dict[tuple[str, int], bytes] = {}
    for act in steps:
        try:
            entries = decide(state, formats, act).entries
        except Refusal:
            continue
        for entry in entries:
            log.append(kinds.encode(entry))
            state.replay(entry, -1)
        if act[0] == "delete_subject":
            assert not state.versions(act[1], act[2]), "a deleted subject has versions"
        for context, held in state.contexts.items():
            for number, schema in held.schemas.items():
                before = given.setdefault((context, number), schema.fingerprint)
                if act[0] != "import":
                    assert before == schema.fingerprint, "an id means another schema than before"
                given[context, number] = schema.fingerprint
    assert told(loaded(log)) == told(state)
    again = loaded(compacted(log))
    subjects, contexts, *rest = told(state)
    assert told(again)[0] == subjects and told(again)[2:] == tuple(rest)
    for name, (most, *_) in contexts.items():
        assert again.id_max(name) == most or not most, "after compaction an id could come a second time"
