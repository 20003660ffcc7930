"""Errors have Apache Kafka's codes and words, which scripts and client suites look for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.raw import Connection
from tests.conformance.refusals_of_kafka import RECORDED
from tests.conformance.refused_requests import REFUSED, Names, errors_in

# Kafka has no words here, or only general ones: Tidelog says more.  The codes are Kafka's.
OWN_WORDS = {
    "grow: unknown topic",
    "describe: unknown topic",
    "describe: unknown type",
    "reassign: nothing to cancel",
    "coordinator: unknown kind",
    "consumer: bad pattern",  # another library of regular expressions
    "features: unknown",
}


def test_every_request_has_a_record() -> None:
    assert REFUSED.keys() == RECORDED.keys()


@pytest.mark.parametrize("which", REFUSED)
def test_a_refused_request_gets_the_code_and_the_words_of_kafka(
    connection: Connection, topic: Any, group: str, name: Any, which: str
) -> None:
    api, version, fields = REFUSED[which]
    names = Names(topic(partitions=2), group, name())
    answer = connection.call(api, version, **names.fill(fields))
    refusals = [(code, names.hide(text)) for code, text in errors_in(answer)]
    if which in OWN_WORDS and not ON_KAFKA:
        assert [code for code, _ in refusals] == [code for code, _ in RECORDED[which]]
    else:
        assert refusals == RECORDED[which]
