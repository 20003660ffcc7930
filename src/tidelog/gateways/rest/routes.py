"""The REST proxy: Confluent's paths of versions 2 and 3.  One table lists the endpoints; the tables in
`gateways.openapi` describe what each takes and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from tidelog import errors
from tidelog.gateways.http import rights
from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.services import GatewayServices
from tidelog.gateways.openapi.document import document
from tidelog.gateways.openapi.registry import OPERATIONS as REGISTRY
from tidelog.gateways.rest import batch, consumers, events, groups, reassignments, records, replicas, v2, v3
from tidelog.gateways.rest.call import Rest, check_accepted, refused
from tidelog.gateways.rest.consumers import in_v2

Handler = Callable[[Rest, Request], Awaitable[Response]]

_CLUSTER = "/v3/clusters/{cluster}"
_TOPIC = _CLUSTER + "/topics/{topic}"
_GROUP = _CLUSTER + "/consumer-groups/{group}"
_INSTANCE = "/consumers/{group}/instances/{instance}"

ENDPOINTS: list[tuple[str, str, Handler]] = [
    ("GET", "/v3/clusters", v3.clusters),
    ("GET", _CLUSTER, v3.cluster),
    ("GET", _CLUSTER + "/brokers", v3.brokers),
    ("GET", _CLUSTER + "/brokers/{broker}", v3.broker),
    ("GET", _CLUSTER + "/brokers/-/configs", v3.configs_of_brokers),
    ("GET", _CLUSTER + "/brokers/{broker}/configs", v3.configs),
    ("POST", _CLUSTER + "/brokers/{broker}/configs:alter", v3.alter_configs),
    ("GET", _CLUSTER + "/brokers/{broker}/configs/{name}", v3.config),
    ("PUT", _CLUSTER + "/brokers/{broker}/configs/{name}", v3.set_config),
    ("DELETE", _CLUSTER + "/brokers/{broker}/configs/{name}", v3.set_config),
    ("GET", _CLUSTER + "/brokers/{broker}/partition-replicas", replicas.on_broker),
    ("GET", _CLUSTER + "/broker-configs", v3.configs),
    ("POST", _CLUSTER + "/broker-configs:alter", v3.alter_configs),
    ("GET", _CLUSTER + "/broker-configs/{name}", v3.config),
    ("PUT", _CLUSTER + "/broker-configs/{name}", v3.set_config),
    ("DELETE", _CLUSTER + "/broker-configs/{name}", v3.set_config),
    ("GET", _CLUSTER + "/topics", v3.topics),
    ("POST", _CLUSTER + "/topics", v3.create_topic),
    ("GET", _TOPIC, v3.topic),
    ("PATCH", _TOPIC, v3.add_partitions),
    ("DELETE", _TOPIC, v3.delete_topic),
    ("GET", _TOPIC + "/partitions", v3.partitions),
    ("GET", _TOPIC + "/partitions/{partition}", v3.partition),
    ("GET", _TOPIC + "/partitions/{partition}/replicas", replicas.replicas),
    ("GET", _TOPIC + "/partitions/{partition}/replicas/{broker}", replicas.replica),
    ("GET", _CLUSTER + "/topics/-/partitions/-/reassignment", reassignments.of_all),
    ("GET", _TOPIC + "/partitions/-/reassignment", reassignments.of_topic),
    ("GET", _TOPIC + "/partitions/{partition}/reassignment", reassignments.of_partition),
    ("GET", _TOPIC + "/configs", v3.configs),
    ("POST", _TOPIC + "/configs:alter", v3.alter_configs),
    ("GET", _TOPIC + "/configs/{name}", v3.config),
    ("PUT", _TOPIC + "/configs/{name}", v3.set_config),
    ("DELETE", _TOPIC + "/configs/{name}", v3.set_config),
    ("POST", _TOPIC + "/records", records.produce),
    ("POST", _TOPIC + "/records:batch", batch.produce),
    ("GET", _CLUSTER + "/consumer-groups", groups.groups),
    ("GET", _GROUP, groups.group),
    ("GET", _GROUP + "/consumers", groups.consumers),
    ("GET", _GROUP + "/consumers/{consumer}", groups.consumer),
    ("GET", _GROUP + "/consumers/{consumer}/assignments", groups.assignments),
    ("GET", _GROUP + "/consumers/{consumer}/assignments/{topic}/partitions/{partition}", groups.assignment),
    ("GET", _GROUP + "/lags", groups.lags),
    ("GET", _GROUP + "/lags/{topic}/partitions/{partition}", groups.lag),
    ("GET", _GROUP + "/lag-summary", groups.lag_summary),
    ("GET", "/topics", v2.topics),
    ("GET", "/topics/{topic}", v2.topic),
    ("POST", "/topics/{topic}", v2.produce),
    ("GET", "/topics/{topic}/events", events.events),
    ("GET", "/topics/{topic}/partitions", v2.partitions),
    ("GET", "/topics/{topic}/partitions/{partition}", v2.partition),
    ("POST", "/topics/{topic}/partitions/{partition}", v2.produce),
    ("GET", "/topics/{topic}/partitions/{partition}/offsets", v2.offsets),
    ("POST", "/consumers/{group}", consumers.create),
    ("DELETE", _INSTANCE, consumers.delete),
    ("POST", _INSTANCE + "/subscription", consumers.subscribe),
    ("GET", _INSTANCE + "/subscription", consumers.subscription),
    ("DELETE", _INSTANCE + "/subscription", consumers.unsubscribe),
    ("POST", _INSTANCE + "/assignments", consumers.assign),
    ("GET", _INSTANCE + "/assignments", consumers.assignment),
    ("POST", _INSTANCE + "/positions", consumers.seek),
    ("POST", _INSTANCE + "/positions/beginning", consumers.seek_to_beginning),
    ("POST", _INSTANCE + "/positions/end", consumers.seek_to_end),
    ("POST", _INSTANCE + "/offsets", consumers.commit),
    ("GET", _INSTANCE + "/offsets", consumers.committed),
    ("GET", _INSTANCE + "/records", consumers.records),
]


async def openapi(rest: Rest, request: Request) -> Response:
    return JsonAnswer(document([*((method, path) for method, path, _ in ENDPOINTS), *REGISTRY]))


ENDPOINTS.append(("GET", "/openapi.json", openapi))


def routes(around: GatewayServices) -> list[BaseRoute]:
    rest = Rest(around)
    paths: dict[str, dict[str, Handler]] = {}
    for method, path, handler in ENDPOINTS:
        paths.setdefault(path, {})[method] = handler
    return [
        _Route(path, _answering(rest, path, handlers), methods=list(handlers))
        for path, handlers in paths.items()
    ]


class _Route(Route):
    """Splits paths before it decodes them: the name of a group or an instance may contain slashes."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        parts = [unquote(part) for part in raw.decode("ascii", "replace").split("/")]
        path = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)
        match, child_scope = super().matches({**scope, "path": path})
        if "path_params" in child_scope:
            parameters = child_scope["path_params"]
            child_scope["path_params"] = {name: unquote(value) for name, value in parameters.items()}
        return match, child_scope


def _answering(
    rest: Rest, path: str, handlers: dict[str, Handler]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        check_accepted(request)
        rights.check(rest.around, request, path)
        problem_of = refused if request.url.path.startswith("/v3") else in_v2
        try:
            return await handlers["GET" if request.method == "HEAD" else request.method](rest, request)
        except errors.TidelogError as problem:
            raise problem_of(problem) from problem
        except ExceptionGroup as group:
            tidelog_errors, _ = group.split(errors.TidelogError)
            if tidelog_errors is None:
                raise
            first = tidelog_errors.exceptions[0]
            assert isinstance(first, errors.TidelogError)
            raise problem_of(first) from group

    return answer
