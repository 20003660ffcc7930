from __future__ import annotations

from dataclasses import dataclass

from tidelog.config import BrokerConfig
from tidelog.gateways.http.connection_limits import HttpConnectionLimits


@dataclass(eq=False)
class Client:
    name: str
    has_asked: bool = True
    is_answered: bool = False


def places(**settings: str) -> HttpConnectionLimits[Client]:
    config = BrokerConfig.of({name.replace("_", "."): value for name, value in settings.items()})
    return HttpConnectionLimits(lambda: config)


def test_the_address_with_the_most_gives_up_a_silent_one_then_an_idle_one_then_a_busy_one() -> None:
    held = places(tidelog_http_connections_max="8")
    crowd = [Client("busy", is_answered=True), Client("idle"), Client("silent", has_asked=False)]
    crowd += [Client(f"busy {number}", is_answered=True) for number in range(5)]
    assert [held.came(client, "bad") for client in crowd] == [None] * 8
    for expected in ("silent", "idle", "busy"):
        leaves = held.came(Client("good", is_answered=True), "good")
        assert leaves is not None and leaves.name == expected
        held.left(leaves, "bad")
        held.left(leaves, "bad")
    # Now neither address has more than half of the places with less to lose: whoever comes is refused by the guard.
    while (leaves := held.came(Client("good", is_answered=True), "good")) is not None:
        held.left(leaves, "bad")
    assert held.refusal("bad") is None


def test_an_address_may_have_as_many_connections_as_on_other_listeners() -> None:
    held = places(max_connections_per_ip="2")
    for number in range(2):
        assert held.refusal("a") is None
        held.came(Client(str(number)), "a")
    assert held.refusal("a") == "max.connections.per.ip (2) is reached"
    assert held.refusal("b") is None
