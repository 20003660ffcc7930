"""What every route of the HTTP port needs, in one table; asked where the broker has an authorizer, or the user a
tenant.

A gateway calls `check` before a handler runs.  What a handler then does through the clients of `clients.py` is decided again
by the brokers, with the rights of the same user; lists that a handler takes from the metadata keep only what `visible` lets
through.  A route that is not in the table is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request

from tidelog.gateways.http import identity
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.scrape_tokens import METRICS, SCRAPER
from tidelog.wire.acls import CLUSTER_NAME, AclOperation, AclResourceType

if TYPE_CHECKING:
    from tidelog.gateways.http.services import GatewayServices

FORBIDDEN = 40301
TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTION = AclResourceType.TRANSACTIONAL_ID
READ, WRITE, ALTER, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER, AclOperation.DELETE
DESCRIBE, DESCRIBE_CONFIGS = AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
ALTER_CONFIGS = AclOperation.ALTER_CONFIGS


class NeededRight(NamedTuple):
    operation: AclOperation
    kind: AclResourceType
    name: str
    """{parameter} of the path, ?parameter of the query, or the name itself."""

    def name_in(self, request: Request) -> str:
        if self.name.startswith("{"):
            return str(request.path_params[self.name[1:-1]])
        if self.name.startswith("?"):
            return request.query_params.get(self.name[1:], "")
        return self.name


class Rule(NamedTuple):
    needs: tuple[NeededRight, ...] = ()
    is_open: bool = False
    """No login is needed."""


def _topic(operation: AclOperation) -> Rule:
    return Rule((NeededRight(operation, TOPIC, "{topic}"),))


def _group(operation: AclOperation, name: str = "{group}") -> Rule:
    return Rule((NeededRight(operation, GROUP, name),))


def _cluster(operation: AclOperation) -> Rule:
    return Rule((NeededRight(operation, CLUSTER, CLUSTER_NAME),))


OPEN = Rule(is_open=True)
LOGGED_IN = Rule()
"""Any user: the handler shows nothing of the cluster, or acts through the clients of the user alone."""
FILTERED = Rule()
"""Any user: the handler leaves out what the user may not see."""
_CLUSTER_PAGE = _cluster(DESCRIBE)
_SEEN_TOPIC = _topic(DESCRIBE)
_SEEN_GROUP = _group(DESCRIBE)
_NAMED_GROUP = _group(DESCRIBE, "?name")
_LAG = Rule((*_SEEN_GROUP.needs, *_SEEN_TOPIC.needs))

_V3 = "/v3/clusters/{cluster}"
_V3_TOPIC = _V3 + "/topics/{topic}"
_V3_GROUP = _V3 + "/consumer-groups/{group}"
_V3_BROKER = _V3 + "/brokers/{broker}"
_INSTANCE = "/consumers/{group}/instances/{instance}"
_CONSOLE_TOPIC = "/console/topics/{topic}"

RIGHTS: dict[tuple[str, str], Rule] = {
    ("GET", "/health/live"): OPEN,
    ("GET", "/health/ready"): OPEN,
    ("GET", "/metrics"): _CLUSTER_PAGE,
    ("GET", "/openapi.json"): LOGGED_IN,
    # The management API of AMQP
    ("GET", "/api/{rest:path}"): _CLUSTER_PAGE,
    ("POST", "/api/definitions"): _cluster(ALTER),
    # REST, version 3
    ("GET", "/v3/clusters"): LOGGED_IN,
    ("GET", _V3): LOGGED_IN,
    ("GET", _V3 + "/brokers"): _CLUSTER_PAGE,
    ("GET", _V3_BROKER): _CLUSTER_PAGE,
    ("GET", _V3_BROKER + "/partition-replicas"): _CLUSTER_PAGE,
    ("GET", _V3 + "/brokers/-/configs"): _cluster(DESCRIBE_CONFIGS),
    ("GET", _V3_BROKER + "/configs"): _cluster(DESCRIBE_CONFIGS),
    ("GET", _V3_BROKER + "/configs/{name}"): _cluster(DESCRIBE_CONFIGS),
    ("POST", _V3_BROKER + "/configs:alter"): _cluster(ALTER_CONFIGS),
    ("PUT", _V3_BROKER + "/configs/{name}"): _cluster(ALTER_CONFIGS),
    ("DELETE", _V3_BROKER + "/configs/{name}"): _cluster(ALTER_CONFIGS),
    ("GET", _V3 + "/broker-configs"): _cluster(DESCRIBE_CONFIGS),
    ("GET", _V3 + "/broker-configs/{name}"): _cluster(DESCRIBE_CONFIGS),
    ("POST", _V3 + "/broker-configs:alter"): _cluster(ALTER_CONFIGS),
    ("PUT", _V3 + "/broker-configs/{name}"): _cluster(ALTER_CONFIGS),
    ("DELETE", _V3 + "/broker-configs/{name}"): _cluster(ALTER_CONFIGS),
    ("GET", _V3 + "/topics"): FILTERED,
    ("POST", _V3 + "/topics"): LOGGED_IN,  # the body has the name: the controller decides
    ("GET", _V3_TOPIC): _SEEN_TOPIC,
    ("PATCH", _V3_TOPIC): _topic(ALTER),
    ("DELETE", _V3_TOPIC): _topic(DELETE),
    ("GET", _V3_TOPIC + "/partitions"): _SEEN_TOPIC,
    ("GET", _V3_TOPIC + "/partitions/{partition}"): _SEEN_TOPIC,
    ("GET", _V3_TOPIC + "/partitions/{partition}/replicas"): _SEEN_TOPIC,
    ("GET", _V3_TOPIC + "/partitions/{partition}/replicas/{broker}"): _SEEN_TOPIC,
    ("GET", _V3 + "/topics/-/partitions/-/reassignment"): _CLUSTER_PAGE,
    ("GET", _V3_TOPIC + "/partitions/-/reassignment"): _SEEN_TOPIC,
    ("GET", _V3_TOPIC + "/partitions/{partition}/reassignment"): _SEEN_TOPIC,
    ("GET", _V3_TOPIC + "/configs"): _topic(DESCRIBE_CONFIGS),
    ("GET", _V3_TOPIC + "/configs/{name}"): _topic(DESCRIBE_CONFIGS),
    ("POST", _V3_TOPIC + "/configs:alter"): _topic(ALTER_CONFIGS),
    ("PUT", _V3_TOPIC + "/configs/{name}"): _topic(ALTER_CONFIGS),
    ("DELETE", _V3_TOPIC + "/configs/{name}"): _topic(ALTER_CONFIGS),
    ("POST", _V3_TOPIC + "/records"): _topic(WRITE),
    ("POST", _V3_TOPIC + "/records:batch"): _topic(WRITE),
    ("GET", _V3 + "/consumer-groups"): FILTERED,  # by the coordinators
    ("GET", _V3_GROUP): _SEEN_GROUP,
    ("GET", _V3_GROUP + "/consumers"): _SEEN_GROUP,
    ("GET", _V3_GROUP + "/consumers/{consumer}"): _SEEN_GROUP,
    ("GET", _V3_GROUP + "/consumers/{consumer}/assignments"): _SEEN_GROUP,
    ("GET", _V3_GROUP + "/consumers/{consumer}/assignments/{topic}/partitions/{partition}"): _LAG,
    ("GET", _V3_GROUP + "/lags"): _SEEN_GROUP,
    ("GET", _V3_GROUP + "/lags/{topic}/partitions/{partition}"): _LAG,
    ("GET", _V3_GROUP + "/lag-summary"): _SEEN_GROUP,
    # REST, version 2
    ("GET", "/topics"): FILTERED,
    ("GET", "/topics/{topic}"): _topic(DESCRIBE_CONFIGS),  # the answer has the settings
    ("POST", "/topics/{topic}"): _topic(WRITE),
    ("GET", "/topics/{topic}/events"): _topic(READ),
    ("GET", "/topics/{topic}/partitions"): _SEEN_TOPIC,
    ("GET", "/topics/{topic}/partitions/{partition}"): _SEEN_TOPIC,
    ("POST", "/topics/{topic}/partitions/{partition}"): _topic(WRITE),
    ("GET", "/topics/{topic}/partitions/{partition}/offsets"): _SEEN_TOPIC,
    # Consumer instances belong to the user who made them: see `rest/instances.py`.
    ("POST", "/consumers/{group}"): _group(READ),
    ("DELETE", _INSTANCE): _group(READ),
    ("POST", _INSTANCE + "/subscription"): _group(READ),
    ("GET", _INSTANCE + "/subscription"): _group(READ),
    ("DELETE", _INSTANCE + "/subscription"): _group(READ),
    ("POST", _INSTANCE + "/assignments"): _group(READ),
    ("GET", _INSTANCE + "/assignments"): _group(READ),
    ("POST", _INSTANCE + "/positions"): _group(READ),
    ("POST", _INSTANCE + "/positions/beginning"): _group(READ),
    ("POST", _INSTANCE + "/positions/end"): _group(READ),
    ("POST", _INSTANCE + "/offsets"): _group(READ),
    ("GET", _INSTANCE + "/offsets"): _group(READ),
    ("GET", _INSTANCE + "/records"): _group(READ),
    # The console
    ("GET", "/console/login"): OPEN,
    ("POST", "/console/login"): OPEN,
    ("GET", "/console/login/kerberos"): OPEN,
    ("GET", "/console/login/oidc"): OPEN,
    ("GET", "/console/login/oidc/callback"): OPEN,
    ("GET", "/console/static/{name}"): OPEN,
    ("POST", "/console/logout"): LOGGED_IN,
    ("GET", "/"): FILTERED,  # leads to the topics where the cluster may not be seen
    ("GET", "/console"): FILTERED,
    ("GET", "/console/live"): _CLUSTER_PAGE,
    ("GET", "/console/find"): FILTERED,
    ("GET", "/console/create-topic"): LOGGED_IN,
    ("GET", "/console/topics"): FILTERED,
    ("POST", "/console/topics"): LOGGED_IN,
    ("GET", _CONSOLE_TOPIC): _SEEN_TOPIC,
    ("GET", _CONSOLE_TOPIC + "/live"): _SEEN_TOPIC,
    ("POST", _CONSOLE_TOPIC + "/partitions"): _topic(ALTER),
    ("POST", _CONSOLE_TOPIC + "/delete"): _topic(DELETE),
    ("GET", _CONSOLE_TOPIC + "/messages"): _topic(READ),
    ("GET", _CONSOLE_TOPIC + "/messages/{partition:int}/{offset:int}"): _topic(READ),
    ("GET", _CONSOLE_TOPIC + "/tail"): _topic(READ),
    ("GET", _CONSOLE_TOPIC + "/tail/events"): _topic(READ),
    ("GET", _CONSOLE_TOPIC + "/settings"): _topic(DESCRIBE_CONFIGS),
    ("GET", _CONSOLE_TOPIC + "/produce"): _topic(WRITE),
    ("POST", _CONSOLE_TOPIC + "/produce"): _topic(WRITE),
    ("POST", "/console/settings"): LOGGED_IN,  # the form has the name: the brokers decide
    ("GET", "/console/groups"): FILTERED,  # by the coordinators
    ("GET", "/console/groups/show"): _NAMED_GROUP,
    ("GET", "/console/groups/live"): _NAMED_GROUP,
    ("GET", "/console/groups/settings"): _group(DESCRIBE_CONFIGS, "?name"),
    ("POST", "/console/groups/delete"): LOGGED_IN,
    ("POST", "/console/groups/remove"): LOGGED_IN,
    ("GET", "/console/groups/reset"): _NAMED_GROUP,
    ("POST", "/console/groups/reset"): LOGGED_IN,
    ("GET", "/console/shares"): FILTERED,  # by the coordinators
    ("GET", "/console/shares/show"): _NAMED_GROUP,
    ("GET", "/console/shares/live"): _NAMED_GROUP,
    ("GET", "/console/peer/shares"): _CLUSTER_PAGE,  # asked by the brokers themselves
    ("GET", "/console/peer/process"): _CLUSTER_PAGE,
    ("GET", "/console/transactions"): FILTERED,  # by the coordinators
    ("GET", "/console/transactions/show"): Rule((NeededRight(DESCRIBE, TRANSACTION, "?name"),)),
    ("POST", "/console/transactions/abort"): LOGGED_IN,
    ("GET", "/console/schemas"): FILTERED,  # by the registry
    ("GET", "/console/register-schema"): LOGGED_IN,
    ("POST", "/console/schemas"): LOGGED_IN,  # the registry decides, here and below
    ("GET", "/console/schemas/show"): LOGGED_IN,
    ("POST", "/console/schemas/try"): LOGGED_IN,
    ("POST", "/console/schemas/compatibility"): LOGGED_IN,
    ("POST", "/console/schemas/delete"): LOGGED_IN,
    ("GET", "/console/brokers"): _CLUSTER_PAGE,
    ("GET", "/console/brokers/live"): _CLUSTER_PAGE,
    ("GET", "/console/brokers/{node:int}"): Rule(
        (*_CLUSTER_PAGE.needs, NeededRight(DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME))
    ),
    ("GET", "/console/clients"): _CLUSTER_PAGE,
    ("GET", "/console/clients/show"): _CLUSTER_PAGE,
    ("GET", "/console/peer/clients"): _CLUSTER_PAGE,
    ("GET", "/console/tenants"): _CLUSTER_PAGE,
    ("GET", "/console/alerts"): _CLUSTER_PAGE,
    ("GET", "/console/alerts/live"): _CLUSTER_PAGE,
    ("GET", "/console/plan"): _CLUSTER_PAGE,
    ("GET", "/console/{rest:path}"): LOGGED_IN,
}
"""By method and path of the route; the schema registry's are in `registry/rights.py`."""

OPEN_PATHS = frozenset(
    {
        "/console/login",
        "/console/login/kerberos",
        "/console/login/oidc",
        "/console/login/oidc/callback",
    }
)
OPEN_PREFIXES = ("/health/", "/console/static/")


def is_open(path: str) -> bool:
    """Whether the path is reached without a login."""
    return path in OPEN_PATHS or path.startswith(OPEN_PREFIXES)


def checks(around: GatewayServices) -> bool:
    """False: the user of this request may do everything."""
    session = identity.session()
    return around.config.authorizes or (session is not None and around.services.gate.authorizes(session))


def check(around: GatewayServices, request: Request, path: str) -> None:
    """Raises `Problem` unless the user may have what the route `path` answers."""
    if not checks(around):
        return
    rule = RIGHTS.get(("GET" if request.method == "HEAD" else request.method, path))
    if rule is None:
        raise Problem(403, f"{request.method} {request.url.path} is not allowed", FORBIDDEN)
    session = identity.session()
    if rule.is_open or (path == METRICS and session is not None and session.principal == SCRAPER):
        return
    for need in rule.needs:
        require(around, need.operation, need.kind, need.name_in(request))
    if not rule.needs and identity.behalf() is None:
        raise Problem(403, "this request has no login", FORBIDDEN)


def require(around: GatewayServices, operation: AclOperation, kind: AclResourceType, name: str) -> None:
    """Raises `Problem`, with the same words whether or not the resource exists."""
    if not allowed(around, operation, kind, name, named=True):
        kind_name = kind.name.lower().replace("_", " ")
        raise Problem(
            403,
            f"{operation.name} on {kind_name} {name!r} is not allowed: ask for an ACL or a role",
            FORBIDDEN,
        )


def allowed(
    around: GatewayServices, operation: AclOperation, kind: AclResourceType, name: str, *, named: bool
) -> bool:
    """`named`: the client named the resource in its request; otherwise a refused one is left out of the answer."""
    if not checks(around):
        return True
    session = identity.session()
    if session is None:
        return identity.behalf() == identity.OF_BROKER
    gate = around.services.gate
    return (gate.allows if named else gate.sees)(session, operation, kind, name)


def visible(around: GatewayServices, kind: AclResourceType, name: str) -> bool:
    return allowed(around, DESCRIBE, kind, name, named=False)


def sees_cluster(around: GatewayServices) -> bool:
    return visible(around, CLUSTER, CLUSTER_NAME)
