"""What the endpoints of the schema registry need.  Kafka has no ACLs for subjects: the ACLs of topic x count for
the subjects x-value and x-key, and any other subject counts as a topic of its own name.  Global settings are those of
the cluster.

The console and the REST proxy ask the registry through the same endpoints, so that this holds for them, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.gateways.http import identity
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.http.rights import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    FORBIDDEN,
    TOPIC,
    WRITE,
    checks,
    require,
    visible,
)
from tidelog.gateways.registry.schemas import users_of_id
from tidelog.registry.refusal import schema_not_found
from tidelog.registry.state import RegistryState
from tidelog.registry.subjects import Subject
from tidelog.wire.acls import CLUSTER_NAME, AclOperation

if TYPE_CHECKING:
    from tidelog.gateways.http.surroundings import Surroundings
    from tidelog.gateways.registry.call import Call

SIDES = ("-value", "-key")


class SubjectRule(NamedTuple):
    subject: AclOperation | None = None
    """On the topic of the first name in the path."""
    cluster: AclOperation | None = None
    """Where the path has no subject, or a whole context in its place."""
    filtered: bool = False
    """The answer is a list of subjects, or of objects with a subject: the hidden ones are left out."""
    of_schema: bool = False
    """The path has an id or a GUID: some subject that uses the schema must be visible."""


_SEEN = SubjectRule(DESCRIBE, DESCRIBE)
_ALTERED = SubjectRule(ALTER, ALTER_CONFIGS)
_SETTING, _SET = SubjectRule(DESCRIBE, DESCRIBE_CONFIGS), SubjectRule(ALTER, ALTER_CONFIGS)
_ANY_USER = SubjectRule()
_LIST = SubjectRule(filtered=True)

RIGHTS: dict[tuple[str, str], SubjectRule] = {
    ("GET", "subjects"): _LIST,
    ("POST", "subjects/{}"): _SEEN,
    ("DELETE", "subjects/{}"): _ALTERED,
    ("GET", "subjects/{}/versions"): _SEEN,
    ("POST", "subjects/{}/versions"): SubjectRule(WRITE, ALTER),
    ("GET", "subjects/{}/versions/{}"): _SEEN,
    ("DELETE", "subjects/{}/versions/{}"): _ALTERED,
    ("GET", "subjects/{}/versions/{}/schema"): _SEEN,
    ("GET", "subjects/{}/versions/{}/referencedby"): _SEEN,
    ("GET", "subjects/{}/metadata"): _SEEN,
    ("POST", "compatibility/subjects/{}/versions"): _SEEN,
    ("POST", "compatibility/subjects/{}/versions/{}"): _SEEN,
    ("GET", "schemas"): _LIST,
    ("GET", "schemas/types"): _ANY_USER,
    ("GET", "schemas/ids/{}"): SubjectRule(of_schema=True),
    ("GET", "schemas/ids/{}/schema"): SubjectRule(of_schema=True),
    ("GET", "schemas/ids/{}/subjects"): SubjectRule(filtered=True, of_schema=True),
    ("GET", "schemas/ids/{}/versions"): SubjectRule(filtered=True, of_schema=True),
    ("GET", "schemas/guids/{}"): SubjectRule(of_schema=True),
    ("GET", "schemas/guids/{}/ids"): SubjectRule(of_schema=True),
    ("GET", "config"): _SETTING,
    ("PUT", "config"): _SET,
    ("DELETE", "config"): _SET,
    ("GET", "config/{}"): _SETTING,
    ("PUT", "config/{}"): _SET,
    ("DELETE", "config/{}"): _SET,
    ("GET", "mode"): _SETTING,
    ("PUT", "mode"): _SET,
    ("DELETE", "mode"): _SET,
    ("GET", "mode/{}"): _SETTING,
    ("PUT", "mode/{}"): _SET,
    ("DELETE", "mode/{}"): _SET,
    ("GET", "contexts"): SubjectRule(cluster=DESCRIBE),
    ("DELETE", "contexts/{}"): SubjectRule(cluster=ALTER_CONFIGS),
}
"""By method and pattern, as in `routes.ENDPOINTS`."""


def topic_of(subject: str) -> str:
    """The topic whose ACLs count for a subject; empty for a whole context."""
    name = Subject.of(subject).name
    for side in SIDES:
        if name.endswith(side) and len(name) > len(side):
            return name.removesuffix(side)
    return name


def sees_subject(around: Surroundings, subject: str) -> bool:
    topic = topic_of(subject)
    return visible(around, TOPIC, topic) if topic else visible(around, CLUSTER, CLUSTER_NAME)


async def answered(
    around: Surroundings,
    call: Call,
    endpoint: tuple[str, str],
    handler: Callable[[Call], Awaitable[Any]],
) -> Any:
    """What the handler answers to this user; raises `Problem` or `Refusal`."""
    if not checks(around):
        return await handler(call)
    rule = RIGHTS[endpoint]
    check(around, rule, call)
    if endpoint == ("PUT", "mode/{}"):
        _check_mode(around, call)
    if rule.of_schema:
        await _check_schema(around, call, endpoint)
    answer = await handler(call)
    if not rule.filtered:
        return answer
    return [
        entry
        for entry in answer
        if sees_subject(around, entry if isinstance(entry, str) else entry["subject"])
    ]


def check(around: Surroundings, rule: SubjectRule, call: Call) -> None:
    topic = topic_of(call.subject) if rule.subject is not None and call.names else ""
    if topic:
        assert rule.subject is not None
        require(around, rule.subject, TOPIC, topic)
    elif rule.cluster is not None:
        require(around, rule.cluster, CLUSTER, CLUSTER_NAME)
    for other in _named_in_body(call) if rule.subject is not None else ():
        # A reference or an alias shows what is in the other subject.
        require(around, DESCRIBE, TOPIC, topic_of(other))


def _check_mode(around: Surroundings, call: Call) -> None:
    """In the mode IMPORT clients choose ids, which are those of all tenants: one of them could use them up."""
    mode = call.body.get("mode") if isinstance(call.body, dict) else None
    session = identity.session()
    tenant = None if session is None else around.services.gate.tenant(session)
    if tenant is not None and isinstance(mode, str) and mode.upper() == "IMPORT":
        raise Problem(
            403,
            f"tenant {tenant.name!r} cannot choose the ids of schemas: ask the operator for mode IMPORT",
            FORBIDDEN,
        )


def _named_in_body(call: Call) -> list[str]:
    body = call.body
    if not isinstance(body, dict):
        return []
    references = body.get("references")
    listed = references if isinstance(references, list) else []
    named = [entry.get("subject") for entry in listed if isinstance(entry, dict)] + [body.get("alias")]
    return [name for name in named if isinstance(name, str) and name]


async def _check_schema(around: Surroundings, call: Call, endpoint: tuple[str, str]) -> None:
    wanted = call.names[0]
    by_guid = endpoint[1].startswith("schemas/guids/")

    def users(state: RegistryState) -> set[str]:
        if by_guid:
            versions = (version for stored in state.subjects.values() for version in stored.values())
            return {version.subject for version in versions if version.schema.guid == wanted.lower()}
        _, versions_of_id = users_of_id(state, call)
        return {version.subject for version in versions_of_id}

    if not any(sees_subject(around, subject) for subject in await call.registry.read(users)):
        raise schema_not_found(wanted)
