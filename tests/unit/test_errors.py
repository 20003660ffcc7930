from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidelog import errors


def test_every_error_of_kafka_has_a_class_of_its_name_code_and_retriability() -> None:
    for theirs in ErrorCode:
        if theirs.value == errors.NONE:
            continue
        ours = errors.by_code(theirs.value)
        assert (ours.code, ours.name, ours.retriable) == (theirs.value, theirs.name.upper(), theirs.retriable)
        assert ours is getattr(errors, ours.__name__)
        assert issubclass(ours, errors.Retriable) == ours.retriable


def test_an_error_without_a_message_says_what_to_do() -> None:
    assert str(errors.UnknownTopicOrPartition()).startswith("no such topic or partition on this broker")
    texts = [errors.by_code(code.value).about for code in ErrorCode if code.value != errors.NONE]
    assert len(set(texts)) == len(texts)


def test_an_error_carries_the_message_it_was_raised_with() -> None:
    with pytest.raises(errors.TidelogError, match="no topic 'orders'"):
        raise errors.UnknownTopicOrPartition("no topic 'orders' here: create it first")


def test_a_finer_error_goes_over_the_wire_as_its_parent() -> None:
    class TornBatch(errors.CorruptMessage):
        pass

    assert (TornBatch.code, TornBatch.name, TornBatch.retriable) == (2, "CORRUPT_MESSAGE", True)
    assert errors.by_code(2) is errors.CorruptMessage


def test_a_code_from_a_newer_broker_is_an_unknown_server_error() -> None:
    assert errors.by_code(9_999) is errors.UnknownServerError
    assert errors.name_of(9_999) == "UNKNOWN_ERROR_CODE_9999"


def test_zero_is_no_error() -> None:
    assert errors.name_of(errors.NONE) == "NONE"
    with pytest.raises(ValueError, match="no error"):
        errors.by_code(errors.NONE)
