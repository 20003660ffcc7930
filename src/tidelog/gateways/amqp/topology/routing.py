"""Which queues a message goes to: the bindings of one virtual host, by exchange.  Pure.

Each kind of exchange has an index of its own, so that routing does not look at every binding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidelog.gateways.amqp.topology.model import Binding

Bindings = dict[Binding, None]


class DirectBindings:
    def __init__(self) -> None:
        self._by_key: dict[str, list[Binding]] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, []).append(binding)

    def remove(self, binding: Binding) -> None:
        bindings = self._by_key[binding.routing_key]
        bindings.remove(binding)
        if not bindings:
            del self._by_key[binding.routing_key]

    def matching(self, routing_key: str, headers: Mapping[str, Any]) -> Iterator[Binding]:
        yield from self._by_key.get(routing_key, ())


class FanoutBindings:
    def __init__(self) -> None:
        self._all: list[Binding] = []

    def add(self, binding: Binding) -> None:
        self._all.append(binding)

    def remove(self, binding: Binding) -> None:
        self._all.remove(binding)

    def matching(self, routing_key: str, headers: Mapping[str, Any]) -> Iterator[Binding]:
        yield from self._all


class _Word:
    __slots__ = ("bindings", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Word] = {}
        self.bindings: list[Binding] = []


def words_of(key: str) -> list[str]:
    """The empty key has no words."""
    return key.split(".") if key else []


class TopicBindings:
    """A trie of words; `*` stands for one word, `#` for any number of them."""

    def __init__(self) -> None:
        self._root = _Word()

    def add(self, binding: Binding) -> None:
        node = self._root
        for word in words_of(binding.routing_key):
            node = node.next.setdefault(word, _Word())
        node.bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        path = [self._root]
        words = words_of(binding.routing_key)
        for word in words:
            path.append(path[-1].next[word])
        path[-1].bindings.remove(binding)
        for parent, word in zip(reversed(path[:-1]), reversed(words), strict=True):
            node = parent.next[word]
            if node.next or node.bindings:
                return
            del parent.next[word]

    def matching(self, routing_key: str, headers: Mapping[str, Any]) -> Iterator[Binding]:
        words = words_of(routing_key)
        # Nodes after each word, each once: a pattern with many `#` would be walked in very many ways otherwise.
        nodes = _closed({id(self._root): self._root})
        for word in words:
            after: dict[int, _Word] = {}
            for node, stays in nodes.values():
                if stays:
                    after[id(node)] = node
                for step in (word, "*"):
                    child = node.next.get(step)
                    if child is not None:
                        after[id(child)] = child
            nodes = _closed(after, nodes)
        for node, _ in nodes.values():
            yield from node.bindings


_Words = dict[int, tuple[_Word, bool]]


def _closed(nodes: Mapping[int, _Word], before: _Words | None = None) -> _Words:
    """With the nodes that a `#` reaches without a word.  True: the node is a `#` itself, and takes any further word."""
    hashes = {} if before is None else {key for key, (_, stays) in before.items() if stays}
    reached: _Words = {}
    waiting = [(node, key in hashes) for key, node in nodes.items()]
    while waiting:
        node, stays = waiting.pop()
        before_now = reached.get(id(node))
        if before_now is not None and (before_now[1] or not stays):
            continue
        reached[id(node)] = node, stays
        child = node.next.get("#")
        if child is not None:
            waiting.append((child, True))
    return reached


class HeadersBindings:
    def __init__(self) -> None:
        self._all: list[Binding] = []

    def add(self, binding: Binding) -> None:
        self._all.append(binding)

    def remove(self, binding: Binding) -> None:
        self._all.remove(binding)

    def matching(self, routing_key: str, headers: Mapping[str, Any]) -> Iterator[Binding]:
        return (binding for binding in self._all if _headers_match(binding.arguments, headers))


def _headers_match(wanted: Mapping[str, Any], headers: Mapping[str, Any]) -> bool:
    how = wanted.get("x-match", "all")
    with_x = how in ("all-with-x", "any-with-x")
    tests = (
        name in headers and (value is None or headers[name] == value)
        for name, value in wanted.items()
        if name != "x-match" and (with_x or not name.startswith("x-"))
    )
    return any(tests) if how in ("any", "any-with-x") else all(tests)


BindingIndex = DirectBindings | FanoutBindings | TopicBindings | HeadersBindings
INDEXES: dict[str, Callable[[], BindingIndex]] = {
    "direct": DirectBindings,
    "fanout": FanoutBindings,
    "topic": TopicBindings,
    "headers": HeadersBindings,
}
