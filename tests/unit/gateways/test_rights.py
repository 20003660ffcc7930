"""Every route of every gateway is in the table of rights, and nothing else is."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

from starlette.routing import Route

from tests.unit.gateways.around import surroundings
from tidelog.broker.services import Services
from tidelog.gateways.http.rights import OPEN, RIGHTS, is_open
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.http.table import GATEWAYS
from tidelog.gateways.registry import rights as registry_rights
from tidelog.gateways.registry.rights import topic_of
from tidelog.gateways.registry.routes import _WITH_METADATA, ENDPOINTS

REGISTRY = "tidelog.gateways.registry.routes"


def around() -> GatewayServices:
    plain: Any = surroundings()
    services = SimpleNamespace(config=plain.services.config, registry=None)
    return GatewayServices(
        cast(Services, services), plain.unready, plain.bootstrap, plain.figures, plain.clients, plain.names
    )


def served() -> set[tuple[str, str]]:
    """(method, path) of every route but the registry's, which splits its paths itself."""
    given, routes = around(), set()
    for gateway in GATEWAYS:
        if gateway.module == REGISTRY:
            continue
        for route in import_module(gateway.module).routes(given):
            assert isinstance(route, Route) and route.methods is not None
            routes |= {(method, route.path) for method in route.methods if method != "HEAD"}
    return routes


async def test_every_route_says_what_it_needs() -> None:
    assert served() == set(RIGHTS)


def test_every_endpoint_of_the_registry_says_what_it_needs() -> None:
    assert set(registry_rights.RIGHTS) == {*ENDPOINTS, ("GET", _WITH_METADATA)}


def test_only_the_open_routes_are_reached_without_a_login() -> None:
    for (_, path), rule in RIGHTS.items():
        assert is_open(path) == (rule == OPEN), path
    for path in ("/subjects", "/config", "/healthy", "/console/login/x", "/console/statics", "/v3/clusters"):
        assert not is_open(path)


def test_a_subject_is_as_its_topic() -> None:
    topics = {
        "orders-value": "orders",
        "orders-key": "orders",
        ":.eu:orders-value": "orders",
        "com.shop.Order": "com.shop.Order",
        "-value": "-value",
        ":.eu:": "",
    }
    assert {subject: topic_of(subject) for subject in topics} == topics
