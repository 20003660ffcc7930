from __future__ import annotations

import pytest

from tidelog.errors import InvalidTopicException
from tidelog.metadata.topics.names import check_collision, check_topic_name, plain_names


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "...", "x" * 249, "__consumer_offsets"])
def test_a_legal_name_passes(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "ä", "a\n", "a:b", "a\x00"])
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopicException):
        check_topic_name(name)


@pytest.mark.parametrize(("existing", "name"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")])
def test_names_that_are_one_in_metrics_collide(existing: str, name: str) -> None:
    with pytest.raises(InvalidTopicException, match="collides with existing topic"):
        check_collision(name, plain_names([existing, "other"]))


@pytest.mark.parametrize(("existing", "name"), [("a.b", "a.b"), ("ab", "a.b"), ("a-b", "a.b"), ("a.b", "ab")])
def test_other_names_do_not(existing: str, name: str) -> None:
    check_collision(name, plain_names([existing]))
