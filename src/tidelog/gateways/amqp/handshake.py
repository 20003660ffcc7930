"""The first methods of a connection: start, tune, open."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import tidelog
from tidelog.gateways.amqp.login import MECHANISMS, LoginRefused, log_in
from tidelog.gateways.amqp.replies import AmqpError, ConnectionFault, not_allowed
from tidelog.gateways.amqp.services import CHANNELS_MAX, FRAME_BYTES_MAX, HEARTBEAT_S
from tidelog.gateways.amqp.topology.model import DEFAULT_VHOST
from tidelog.gateways.amqp.wire.frames import FRAME_BYTES_MIN, method_frame
from tidelog.gateways.amqp.wire.methods import Method, encode_method
from tidelog.logs import SparingLog

if TYPE_CHECKING:
    from tidelog.gateways.amqp.connection import AmqpConnection

import logging

sparing = SparingLog(logging.getLogger("tidelog.amqp"))

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
REFUSED = "Login was refused using authentication mechanism {}. For details see the broker logfile."


class Handshake:
    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        self._expected = "connection.start-ok"

    def _send(self, name: str, **fields: object) -> None:
        self._connection.write(method_frame(0, encode_method(name, **fields)))

    def start(self) -> None:
        properties = {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": self._connection.services.cluster_name,
            "product": "Tidelog",
            "version": tidelog.__version__,
            "platform": "Python",
        }
        self._send(
            "connection.start",
            version_major=0,
            version_minor=9,
            server_properties=properties,
            mechanisms=" ".join(MECHANISMS).encode(),
            locales=b"en_US",
        )

    def received(self, method: Method) -> Awaitable[None] | None:
        if method.name != self._expected:
            raise ConnectionFault(503, f"expected {self._expected}, got {method.name}")
        if method.name == "connection.start-ok":
            return self._log_in(method)
        if method.name == "connection.tune-ok":
            self._tune(method)
        else:
            self._open(method.fields["virtual_host"])
        return None

    async def _log_in(self, method: Method) -> None:
        connection, mechanism = self._connection, method.fields["mechanism"]
        connection.client_properties = method.fields["client_properties"]
        try:
            connection.user = await log_in(
                connection.services.broker,
                connection.session,
                mechanism,
                method.fields["response"],
                connection.server.logs_in(connection.listener),
            )
        except LoginRefused as problem:
            sparing.warning(connection.host, "refused the login of %s: %s", connection.shown, problem)
            if connection.has_capability("authentication_failure_close"):
                raise AmqpError(403, REFUSED.format(mechanism[:40]), hard=True) from None
            connection.drop()
            return
        self._expected = "connection.tune-ok"
        self._send(
            "connection.tune", channel_max=CHANNELS_MAX, frame_max=FRAME_BYTES_MAX, heartbeat=HEARTBEAT_S
        )

    def _tune(self, method: Method) -> None:
        fields = method.fields
        frame_max = fields["frame_max"] or FRAME_BYTES_MAX
        channel_max = fields["channel_max"] or CHANNELS_MAX
        if frame_max < FRAME_BYTES_MIN:
            raise not_allowed(
                f"negotiated frame_max = {frame_max} is lower than the minimum allowed value ({FRAME_BYTES_MIN})"
            )
        if frame_max > FRAME_BYTES_MAX:
            raise not_allowed(
                f"negotiated frame_max = {frame_max} is higher than the maximum allowed value ({FRAME_BYTES_MAX})"
            )
        if channel_max > CHANNELS_MAX:
            raise not_allowed(
                f"negotiated channel_max = {channel_max} is higher than the maximum allowed value ({CHANNELS_MAX})"
            )
        self._connection.tuned(channel_max, frame_max, fields["heartbeat"])
        self._expected = "connection.open"

    def _open(self, vhost: str) -> None:
        """A virtual host is a tenant; `/` is what belongs to no tenant, for users who belong to none."""
        connection = self._connection
        gate, session = connection.services.broker.gate, connection.session
        own = gate.tenant(session)
        tenant = None if vhost == DEFAULT_VHOST else vhost
        if tenant is not None and gate.tenants.named(tenant) is None:
            raise not_allowed(f"vhost {vhost} not found")
        if own is not None and own.name != tenant:
            raise not_allowed(f"access to vhost '{vhost}' refused for user '{session.user}'")
        connection.open(vhost, tenant)
        self._send("connection.open-ok")
