"""What a client of AMQP changes: charged to its quota of mutations, and recorded in the audit trail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from tidelog.gateways.amqp.replies import AmqpError
from tidelog.gateways.amqp.topology.model import QUEUE, Binding, binding_key

if TYPE_CHECKING:
    from tidelog.gateways.amqp.channel import Channel

_ACCESS_REFUSED = 403


@asynccontextmanager
async def changing(
    channel: Channel, operation: str, kind: str, name: str, *, mutations: int = 1, **change: object
) -> AsyncIterator[None]:
    """Waits first for as long as a quota of `mutations` wants: the frames of the connection wait, too.  A refusal is no
    change: the gate has recorded it."""
    gate, session = channel.services.broker.gate, channel.connection.session
    throttle_ms = gate.quotas.charge_mutation(session, mutations, strict=False)
    if throttle_ms:
        await asyncio.sleep(throttle_ms / 1000)
    vhost = channel.declarer.vhost
    try:
        yield
    except Exception as problem:
        if not isinstance(problem, AmqpError) or problem.code != _ACCESS_REFUSED:
            reason = problem.name if isinstance(problem, AmqpError) else type(problem).__name__
            gate.audit.changed(session, operation, kind, name, {"vhost": vhost, **change}, reason)
        raise
    gate.audit.changed(session, operation, kind, name, {"vhost": vhost, **change}, None)


def binding_changing(channel: Channel, operation: str, binding: Binding) -> AbstractAsyncContextManager[None]:
    """Binding what is bound, and unbinding what is not, are no changes."""
    there = (
        binding_key(channel.declarer.vhost, binding)
        in channel.services.declarations.vhost(channel.declarer).bindings
    )
    if there is (operation == "BIND"):
        return nullcontext()
    return changing(
        channel,
        operation,
        "QUEUE" if binding.kind == QUEUE else "EXCHANGE",
        binding.destination,
        source=binding.source,
        routing_key=binding.routing_key,
    )
