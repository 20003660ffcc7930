from __future__ import annotations

from typing import Any

import pytest

from tidelog.client.security.security import Security


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "me.key"}, "needs its certificate"),
        ({"username": "me", "password": "x"}, "mechanism is missing"),
        ({"mechanism": "EXTERNAL"}, "mechanism cannot be 'EXTERNAL': use PLAIN"),
        ({"mechanism": "PLAIN", "username": "me"}, "needs username and password"),
        ({"mechanism": "OAUTHBEARER"}, "needs token"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Security(**options)


def test_secrets_are_not_shown() -> None:
    shown = repr(Security(mechanism="PLAIN", username="me", password="hidden", key_password="hidden"))
    assert "hidden" not in shown and "me" in shown


def test_tls_is_on_when_anything_of_it_is_named() -> None:
    assert Security().ssl_context() is None
    assert Security(tls=True).ssl_context() is not None
    unchecked = Security(tls=True, check_hostname=False).ssl_context()
    assert unchecked is not None and not unchecked.check_hostname
    with pytest.raises(FileNotFoundError):
        Security(ca="no-such-file.pem").ssl_context()
