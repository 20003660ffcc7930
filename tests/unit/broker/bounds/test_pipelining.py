"""Clients that send nothing while they wait for an answer are told from those that do."""

from __future__ import annotations

from tidelog.broker.bounds.pipelining import PipeliningWatch

FETCH, METADATA, COMMIT = 1, 3, 8


def test_a_fetch_the_moment_a_hold_is_over_has_waited_for_it() -> None:
    for api_key in (FETCH, METADATA):
        pipelining = PipeliningWatch()
        pipelining.expired(10.0)
        pipelining.asked(api_key, 10.001)
        assert pipelining.one_by_one


def test_what_comes_later_says_nothing() -> None:
    pipelining = PipeliningWatch()
    pipelining.asked(FETCH, 1.0)
    pipelining.expired(10.0)
    pipelining.asked(FETCH, 10.5)
    pipelining.asked(FETCH, 10.501)
    assert not pipelining.one_by_one


def test_a_commit_may_come_at_once_by_chance_but_not_twice_in_a_row() -> None:
    pipelining = PipeliningWatch()
    for at in (10.0, 20.0, 30.0):  # at once, late, at once
        pipelining.expired(at)
        pipelining.asked(COMMIT, at + (0.5 if at == 20.0 else 0.001))
        assert not pipelining.one_by_one
    pipelining.expired(40.0)
    pipelining.asked(COMMIT, 40.001)
    assert pipelining.one_by_one
