"""Every public class and function says what it is for; every method of the clients shows how it is called."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import tidelog
import tidelog.aio

CLIENTS = ("Admin", "Consumer", "Producer", "ShareConsumer")
# Between the two faces, and what `async with` does.
INNER = {"abortable", "send_bytes", "sender", "serialized", "start"}


def methods(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_") and name not in INNER]


@pytest.mark.parametrize("home", [tidelog, tidelog.aio], ids=["blocking", "asyncio"])
def test_public_names_are_described(home: ModuleType) -> None:
    # Native classes have their text in the stubs, where editors find it.
    native = {"Delivery", "Record"}
    missing = [
        name
        for name in home.__all__
        if inspect.isclass(getattr(home, name)) and name not in native and not getattr(home, name).__doc__
    ]
    assert missing == []


@pytest.mark.parametrize("home", [tidelog, tidelog.aio], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("client", CLIENTS)
def test_methods_show_how_they_are_called(home: ModuleType, client: str) -> None:
    kind = getattr(home, client)
    for name in methods(kind):
        described = inspect.getdoc(inspect.getattr_static(kind, name)) or ""
        assert f".{name}" in described, f"{client}.{name} has no example"
        asked = inspect.iscoroutinefunction(getattr(kind, name))
        assert ("await " in described) >= asked, f"{client}.{name} is awaited, and its example is not"
