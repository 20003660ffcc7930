"""Listeners of AMQP: those that are named after its protocols.

Their clients log in with SASL in any case; whether the login counts is said by `amqp_logs_in`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.config.listener import Listener

if TYPE_CHECKING:
    from tidelog.config.broker import BrokerConfig

AMQP, AMQPS = AMQP_PROTOCOLS = ("AMQP", "AMQPS")


def kafka_listeners(listeners: Iterable[Listener]) -> tuple[Listener, ...]:
    return tuple(listener for listener in listeners if listener.name not in AMQP_PROTOCOLS)


def amqp_listeners(listeners: Iterable[Listener]) -> tuple[Listener, ...]:
    return tuple(listener for listener in listeners if listener.name in AMQP_PROTOCOLS)


def amqp_logs_in(config: BrokerConfig, listener: str) -> bool:
    """Whether clients of this listener need a password that is right."""
    return config.authorizes or "PLAIN" in config.security[listener].jaas
