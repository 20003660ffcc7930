from __future__ import annotations

import pytest

from tidelog.config.first_users import FirstUser, parse_first_user
from tidelog.errors import InvalidConfig


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("SCRAM-SHA-256=[name=alice,password=secret]", FirstUser("SCRAM-SHA-256", "alice", "secret")),
        ("scram-sha-512 = [name=a, password=b=c ]", FirstUser("SCRAM-SHA-512", "a", "b=c")),
        (
            'SCRAM-SHA-512=[name="a,b",password="x\\"]y",iterations=4096]',
            FirstUser("SCRAM-SHA-512", "a,b", 'x"]y', 4096),
        ),
    ],
)
def test_users_are_written_as_kafka_writes_them(text: str, user: FirstUser) -> None:
    assert parse_first_user(text) == user
    assert user.password not in repr(user)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name=alice,password=hush",
        "PLAIN=[name=alice,password=hush]",
        "SCRAM-SHA-256=[name=alice]",
        "SCRAM-SHA-256=[password=hush]",
        "SCRAM-SHA-256=[name=alice,password=hush,saltt=x]",
        "SCRAM-SHA-256=[name=alice,password=hush,iterations=1]",
        'SCRAM-SHA-256=[name=alice,password="hush]',
    ],
)
def test_what_is_wrong_is_told_without_the_password(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_first_user(text)
    assert "--add-scram" in str(caught.value) and "hush" not in str(caught.value)
