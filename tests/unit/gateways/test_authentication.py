"""Logins of HTTP requests: verdicts that are kept, lock-outs, sessions of the console."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.gate import Gate
from tidelog.broker.services import Services
from tidelog.errors import SaslAuthenticationFailed
from tidelog.gateways.http import authentication as module
from tidelog.gateways.http.authentication import Authentication, HttpIdentity
from tidelog.gateways.http.problem import Problem


class ListedUsers:
    """As much of `Logins` as is asked."""

    def __init__(self) -> None:
        self.passwords = {"ann": "right"}
        self.checked = 0
        self.succeeded = 0
        self.failed = 0

    def fingerprint(self, user: str) -> tuple[object, ...]:
        return (self.passwords.get(user),)

    def refusal_delay_s(self, host: str) -> float:
        return 0.0

    def http_exchange(self, mechanism: str, host: str) -> Any:
        users = self

        class Exchange:
            principal: str | None = None
            groups = ()
            expires_ms = None

            async def respond(self, message: bytes) -> bytes:
                users.checked += 1
                _, user, password = message.decode().split("\0")
                if users.passwords.get(user) != password:
                    raise SaslAuthenticationFailed("wrong")
                self.principal = f"User:{user}"
                return b""

        return Exchange()

    def verify_on_behalf(self, message: bytes) -> None:
        return None


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return self.ms


class Scene:
    def __init__(self) -> None:
        self.users, self.clock = ListedUsers(), Clock()
        config = SimpleNamespace(connection_failed_authentication_delay_ms=0)
        services = SimpleNamespace(logins=self.users, clock=self.clock, gate=Gate(), config=lambda: config)
        self.authentication = Authentication(cast(Services, services))

    async def ask(
        self, user: str = "ann", password: str = "right", host: str = "10.0.0.1", cookie: str = ""
    ) -> str | int:
        """The principal, or the status of the refusal."""
        login = base64.b64encode(f"{user}:{password}".encode())
        headers = [(b"cookie", cookie.encode())] if cookie else [(b"authorization", b"Basic " + login)]
        try:
            session = await self.authentication.identify({"headers": headers, "client": (host, 5)})
        except Problem as problem:
            return problem.status
        assert session.admitted and session.host == host and session.protocol == "HTTP"
        return session.principal


async def test_a_verdict_is_kept_for_a_while_and_not_beyond_a_change() -> None:
    scene = Scene()
    assert [await scene.ask() for _ in range(3)] == ["User:ann"] * 3
    assert scene.users.checked == 1
    scene.clock.ms += module.VERDICT_MS
    assert await scene.ask() == "User:ann" and scene.users.checked == 2
    scene.users.passwords["ann"] = "other"
    assert await scene.ask() == 401
    assert await scene.ask(password="other") == "User:ann"
    del scene.users.passwords["ann"]
    assert await scene.ask(password="other") == 401


async def test_five_failures_in_a_minute_lock_the_pair_out() -> None:
    scene = Scene()
    for number in range(5):
        assert await scene.ask(password=f"guess {number}") == 401
        scene.clock.ms += 1_000
    checked = scene.users.checked
    assert await scene.ask() == 401 and scene.users.checked == checked
    assert await scene.ask(host="10.0.0.2") == "User:ann"
    scene.clock.ms += module.FAILURES_WITHIN_MS
    assert await scene.ask() == "User:ann"
    assert (scene.users.succeeded, scene.users.failed) == (2, 6)


async def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SESSIONS_MAX", "VERDICTS_MAX", "FAILING_MAX"):
        monkeypatch.setattr(module, name, 10)
    scene = Scene()
    scene.users.passwords = {f"u{number}": "right" for number in range(50)}
    for number in range(50):
        assert await scene.ask(f"u{number}") == f"User:u{number}"
        assert await scene.ask(f"v{number}", "wrong") == 401
        scene.authentication.open_console(HttpIdentity(f"User:u{number}", (), None, ("right",)))
    tables = (
        scene.authentication._verdicts,
        scene.authentication._failures,
        scene.authentication._sessions,
    )
    assert [len(table) for table in tables] == [10, 10, 10]


async def test_a_console_session_ends_by_itself_and_with_the_password() -> None:
    def opened() -> tuple[Scene, str]:
        scene = Scene()
        identity = HttpIdentity("User:ann", (), None, scene.users.fingerprint("ann"))
        return scene, f"tidelog_session={scene.authentication.open_console(identity)}"

    scene, cookie = opened()
    assert await scene.ask(cookie=cookie) == "User:ann"
    assert await scene.ask(cookie="tidelog_session=x") == await scene.ask(cookie="tidelog_session=") == 401
    scene.clock.ms += module.SESSION_IDLE_MS_MAX + 1
    assert await scene.ask(cookie=cookie) == 401
    scene, cookie = opened()
    for _ in range(13):
        outcome = await scene.ask(cookie=cookie)
        scene.clock.ms += module.SESSION_IDLE_MS_MAX
    assert outcome == "User:ann"
    assert await scene.ask(cookie=cookie) == 401
    scene, cookie = opened()
    scene.users.passwords["ann"] = "other"
    assert await scene.ask(cookie=cookie) == 401
    scene, cookie = opened()
    scene.authentication.close_console(cookie.partition("=")[2])
    assert await scene.ask(cookie=cookie) == 401
