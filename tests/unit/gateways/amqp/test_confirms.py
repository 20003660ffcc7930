"""What a publisher is told, and when."""

from __future__ import annotations

from tidelog.gateways.amqp.confirms import Confirmation, Confirms


def test_what_is_settled_in_order_is_told_at_once() -> None:
    confirms = Confirms()
    tags = [confirms.published(1) for _ in range(4)]
    assert tags == [1, 2, 3, 4]
    for tag in (1, 2, 4):
        confirms.stored(tag, ok=True)
    assert confirms.take() == [Confirmation(2, True, True), Confirmation(4, False, True)]
    assert confirms.take() == []
    confirms.stored(3, ok=True)
    assert confirms.take() == [Confirmation(3, False, True)]
    assert confirms.outstanding == 0


def test_a_message_waits_for_all_its_queues() -> None:
    confirms = Confirms()
    confirms.published(2)
    confirms.stored(1, ok=True)
    assert confirms.take() == []
    confirms.stored(1, ok=True)
    assert confirms.take() == [Confirmation(1, False, True)]


def test_one_queue_that_fails_fails_the_message_alone() -> None:
    confirms = Confirms()
    for _ in range(3):
        confirms.published(2)
    for tag in (1, 1, 2, 3, 3):
        confirms.stored(tag, ok=True)
    confirms.stored(2, ok=False)
    assert confirms.take() == [
        Confirmation(1, False, True),
        Confirmation(2, False, False),
        Confirmation(3, False, True),
    ]


def test_an_unroutable_message_is_settled_at_once() -> None:
    confirms = Confirms()
    assert confirms.published(0) == 1
    assert confirms.take() == [Confirmation(1, False, True)]
