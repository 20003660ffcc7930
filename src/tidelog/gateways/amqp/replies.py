"""The errors of AMQP 0-9-1, with RabbitMQ's words.  A soft error closes the channel, a hard one the connection."""

from __future__ import annotations

NAMES = {
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}
TEXT_BYTES_MAX = 255


class AmqpError(Exception):
    """`hard`: the connection is closed, otherwise the channel."""

    def __init__(self, code: int, text: str, hard: bool) -> None:
        super().__init__(text)
        self.code = code
        self.hard = hard

    @property
    def name(self) -> str:
        return NAMES[self.code]

    @property
    def reply_text(self) -> str:
        return f"{self.name} - {self}".encode()[:TEXT_BYTES_MAX].decode(errors="ignore")


class ChannelFault(AmqpError):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text, hard=False)


class ConnectionFault(AmqpError):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text, hard=True)


def access_refused(text: str) -> ChannelFault:
    return ChannelFault(403, text)


def not_found(kind: str, name: str, vhost: str) -> ChannelFault:
    return ChannelFault(404, f"no {kind} '{name}' in vhost '{vhost}'")


def resource_locked(text: str) -> ChannelFault:
    return ChannelFault(405, text)


def precondition_failed(text: str) -> ChannelFault:
    return ChannelFault(406, text)


def not_allowed(text: str) -> ConnectionFault:
    return ConnectionFault(530, text)
