"""The indexes of bindings against a plain look at every binding."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.amqp.topology.model import QUEUE, AmqpExchange, AmqpQueue, Binding, binding_key
from tidelog.gateways.amqp.topology.routing import words_of
from tidelog.gateways.amqp.topology.vhost import AmqpVhost

KEYS = st.lists(st.sampled_from(["a", "b", ""]), max_size=4).map(".".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "#", ""]), max_size=5).map(".".join)


def matches(pattern: str, key: str) -> bool:
    words, rest = words_of(pattern), words_of(key)

    @cache
    def fits(at: int, place: int) -> bool:
        if at == len(words):
            return place == len(rest)
        if words[at] == "#":
            return fits(at + 1, place) or (place < len(rest) and fits(at, place + 1))
        return place < len(rest) and words[at] in ("*", rest[place]) and fits(at + 1, place + 1)

    return fits(0, 0)


@given(st.lists(st.tuples(PATTERNS, st.integers(0, 3)), max_size=8), st.lists(st.integers(0, 7)), KEYS)
def test_topic_bindings_match_as_if_each_was_looked_at(
    patterns: list[tuple[str, int]], removed: list[int], key: str
) -> None:
    vhost = AmqpVhost("/")
    vhost.put_exchange(AmqpExchange("source", "topic"))
    bindings = {}
    for pattern, number in patterns:
        vhost.queues[f"q{number}"] = AmqpQueue(f"q{number}", f"q{number}")
        binding = Binding("source", QUEUE, f"q{number}", pattern)
        bindings[binding_key("/", binding)] = binding
    for store_key, binding in bindings.items():
        vhost.put_binding(store_key, binding)
    for place in removed:
        if place < len(patterns):
            pattern, number = patterns[place]
            store_key = binding_key("/", Binding("source", QUEUE, f"q{number}", pattern))
            vhost.remove_binding(store_key)
            bindings.pop(store_key, None)
    expected = {binding.destination for binding in bindings.values() if matches(binding.routing_key, key)}
    assert {queue.name for queue in vhost.route("source", key)} == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=10), st.integers(0, 3))
def test_exchanges_bound_in_circles_reach_each_queue_once(edges: list[tuple[int, int]], start: int) -> None:
    vhost = AmqpVhost("/")
    for number in range(4):
        vhost.put_exchange(AmqpExchange(f"x{number}", "fanout"))
        vhost.queues[f"q{number}"] = AmqpQueue(f"q{number}", f"q{number}")
        own = Binding(f"x{number}", QUEUE, f"q{number}")
        vhost.put_binding(binding_key("/", own), own)
    for source, destination in edges:
        edge = Binding(f"x{source}", "e", f"x{destination}")
        vhost.put_binding(binding_key("/", edge), edge)
    expected, waiting = set(), [start]
    while waiting:
        node = waiting.pop()
        if node not in expected:
            expected.add(node)
            waiting += [destination for source, destination in edges if source == node]
    routed = [queue.name for queue in vhost.route(f"x{start}", "")]
    assert sorted(routed) == sorted(f"q{number}" for number in expected)
