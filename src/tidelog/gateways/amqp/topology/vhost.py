"""The exchanges, queues and bindings of one virtual host, and where a message goes.  Pure: changed by what the metadata
store says, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.gateways.amqp.topology.model import (
    EXCHANGE,
    PREDECLARED,
    QUEUE,
    AmqpExchange,
    AmqpQueue,
    Binding,
)
from tidelog.gateways.amqp.topology.routing import INDEXES, BindingIndex

ALTERNATE = "alternate-exchange"
_NO_HEADERS: Mapping[str, Any] = {}

Headers = Callable[[], Mapping[str, Any]]


def no_headers() -> Mapping[str, Any]:
    return _NO_HEADERS


class AmqpVhost:
    def __init__(self, name: str) -> None:
        self.name = name
        self.exchanges: dict[str, AmqpExchange] = {exchange.name: exchange for exchange in PREDECLARED}
        self.queues: dict[str, AmqpQueue] = {}
        self.uses: dict[str, dict[str, bool]] = {}
        """By queue, then by the run of a broker: whether it has the only consumer that there may be."""
        self.active: dict[str, str] = {}
        """By queue: the run of the broker that has its single active consumer."""
        self.bindings: dict[str, Binding] = {}
        """By their keys in the metadata store."""
        self._indexes: dict[str, BindingIndex] = {}
        self._of_destination: dict[tuple[str, str], dict[str, Binding]] = {}
        self._of_source: dict[str, dict[str, Binding]] = {}

    # Changes

    def put_exchange(self, exchange: AmqpExchange) -> None:
        before = self.exchanges.get(exchange.name)
        self.exchanges[exchange.name] = exchange
        if before is None or before.kind != exchange.kind:
            index = self._indexes[exchange.name] = INDEXES[exchange.routes_as]()
            for binding in self._of_source.get(exchange.name, {}).values():
                index.add(binding)

    def remove_exchange(self, name: str) -> None:
        self.exchanges.pop(name, None)
        self._indexes.pop(name, None)

    def put_binding(self, key: str, binding: Binding) -> None:
        if key in self.bindings:
            return
        self.bindings[key] = binding
        self._of_destination.setdefault((binding.kind, binding.destination), {})[key] = binding
        self._of_source.setdefault(binding.source, {})[key] = binding
        index = self._index(binding.source)
        if index is not None:
            index.add(binding)

    def remove_binding(self, key: str) -> None:
        binding = self.bindings.pop(key, None)
        if binding is None:
            return
        for bindings, name in (
            (self._of_destination, (binding.kind, binding.destination)),
            (self._of_source, binding.source),
        ):
            del bindings[name][key]  # type: ignore[index]
            if not bindings[name]:  # type: ignore[index]
                del bindings[name]  # type: ignore[arg-type]
        index = self._indexes.get(binding.source)
        if index is not None:
            index.remove(binding)

    def _index(self, exchange: str) -> BindingIndex | None:
        """The index is made with the first binding."""
        index = self._indexes.get(exchange)
        if index is None and exchange in self.exchanges:
            index = self._indexes[exchange] = INDEXES[self.exchanges[exchange].routes_as]()
        return index

    # Questions

    def bindings_of_source(self, exchange: str) -> dict[str, Binding]:
        return self._of_source.get(exchange, {})

    def bindings_of_destination(self, kind: str, name: str) -> dict[str, Binding]:
        return self._of_destination.get((kind, name), {})

    def route(self, exchange: str, routing_key: str, headers: Headers = no_headers) -> list[AmqpQueue]:
        """The queues that a message goes to, each once, through exchanges bound to exchanges and alternate ones.
        `headers` is called only where an exchange looks at headers."""
        if not exchange:
            queue = self.queues.get(routing_key)
            return [] if queue is None else [queue]
        queues: dict[str, AmqpQueue] = {}
        seen = {exchange}
        waiting = [exchange]
        while waiting:
            name = waiting.pop()
            source = self.exchanges.get(name)
            if source is None:
                continue
            routed = self._routed(source, routing_key, headers)
            alternate = source.arguments.get(ALTERNATE)
            if not routed and isinstance(alternate, str) and alternate not in seen:
                seen.add(alternate)
                waiting.append(alternate)
            for binding in routed:
                if binding.kind == QUEUE:
                    queue = self.queues.get(binding.destination)
                    if queue is not None:
                        queues[queue.name] = queue
                elif binding.destination not in seen:
                    seen.add(binding.destination)
                    waiting.append(binding.destination)
        return list(queues.values())

    def _routed(self, source: AmqpExchange, routing_key: str, headers: Headers) -> list[Binding]:
        if not source.name:
            queue = self.queues.get(routing_key)
            return [] if queue is None else [Binding("", QUEUE, queue.name, routing_key)]
        index = self._indexes.get(source.name)
        if index is None:
            return []
        return list(index.matching(routing_key, headers() if source.routes_as == "headers" else _NO_HEADERS))


__all__ = ["ALTERNATE", "EXCHANGE", "QUEUE", "AmqpVhost", "Headers", "no_headers"]
