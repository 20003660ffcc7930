"""What the guards of all APIs are made of.

A guard stands between the router and a handler, as soon as the broker has an authorizer.  It takes out of the request what
the principal may not do, lets the handler answer the rest, and adds the refusals to its answer.  So no handler has rules
about principals, and all rules stand together; `table` names the guard of each API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.acls import CLUSTER_NAME, AclOperation, AclResourceType

Handler = Callable[[Any, Context], Any]
Guard = Callable[[Any, Context, Handler], Any]
T = TypeVar("T")

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
Op = AclOperation

TOPIC_REFUSED = errors.TopicAuthorizationFailed.code
GROUP_REFUSED = errors.GroupAuthorizationFailed.code
CLUSTER_REFUSED = errors.ClusterAuthorizationFailed.code
TRANSACTION_REFUSED = errors.TransactionalIdAuthorizationFailed.code

_OPERATIONS = {
    TOPIC: (
        Op.READ,
        Op.WRITE,
        Op.CREATE,
        Op.DELETE,
        Op.ALTER,
        Op.DESCRIBE,
        Op.DESCRIBE_CONFIGS,
        Op.ALTER_CONFIGS,
    ),
    GROUP: (Op.READ, Op.DELETE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    CLUSTER: (
        Op.CREATE,
        Op.ALTER,
        Op.DESCRIBE,
        Op.CLUSTER_ACTION,
        Op.DESCRIBE_CONFIGS,
        Op.ALTER_CONFIGS,
        Op.IDEMPOTENT_WRITE,
    ),
}


async def answered(handle: Handler, request: Any, context: Context) -> Any:
    answer = handle(request, context)
    return await answer if isinstance(answer, Awaitable) else answer


def everybody(request: Any, context: Context, handle: Handler) -> Any:
    """For what every client needs, and for handlers that ask the gate themselves."""
    return handle(request, context)


def whole(
    operation: AclOperation,
    kind: AclResourceType,
    refusal: Callable[[Any, errors.TidelogError], Any],
    name: Callable[[Any], str | None] = lambda request: CLUSTER_NAME,
) -> Guard:
    """The request is about one resource, and refused as a whole.  A name that is None needs no right."""

    def guard(request: Any, context: Context, handle: Handler) -> Any:
        resource = name(request)
        try:
            if resource is not None:
                context.check(operation, kind, resource)
        except errors.TidelogError as problem:
            return refusal(request, problem)
        return handle(request, context)

    return guard


def split(
    context: Context,
    operation: AclOperation,
    kind: AclResourceType,
    items: Iterable[T],
    name: Callable[[T], str | None],
    *,
    named: bool = True,
) -> tuple[list[T], list[T]]:
    """(the allowed items, the refused ones); an item without a name passes.  `named` is False if the client did not name
    the items in its request: the refused ones are then left out of the answer."""
    may = context.allows if named else context.sees
    allowed: list[T] = []
    refused: list[T] = []
    for item in items:
        resource = name(item)
        passes = resource is None or may(operation, kind, resource)
        (allowed if passes else refused).append(item)
    return allowed, refused


def topic_name(context: Context, topic: Any, *, by_id: bool) -> str | None:
    """The name of a topic in a request; None if no topic has the id."""
    if not by_id:
        return str(getattr(topic, "name", None) or getattr(topic, "topic", ""))
    topic_image = context.services.image().topic_by_id(topic.topic_id)
    return None if topic_image is None else topic_image.name


def topic_refusal(context: Context, topic: Any) -> int:
    """The error code of a refused topic: a tenant is told of an id outside of it that there is no such topic."""
    topic_id = getattr(topic, "topic_id", None)
    hidden = topic_id is not None and topic_id.int != 0 and context.hides_topic(topic_id)
    return errors.UnknownTopicId.code if hidden else TOPIC_REFUSED


def operations(context: Context, kind: AclResourceType, name: str) -> int:
    """Which operations the principal may do, as bits."""
    return sum(1 << operation for operation in _OPERATIONS[kind] if context.sees(operation, kind, name))
