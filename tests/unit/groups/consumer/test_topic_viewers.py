"""Which topics a regular expression stands for when members may not know of all: what all of them may describe."""

from __future__ import annotations

from collections.abc import Mapping

from tests.property.groups.consumer.consumers import GROUP, Service
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeat import check_request, member_heartbeat
from tidelog.groups.consumer.target_assignment import GroupDraft, refresh
from tidelog.groups.topic_viewer import TopicViewer
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

RULES = object()
REGEX = "t-.*"


def viewer(*names: str, rules: object = RULES) -> TopicViewer:
    return TopicViewer(frozenset(names).__contains__, rules)


def joined(service: Service, member: str, own: TopicViewer, others: Mapping[str, TopicViewer]) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_regex=REGEX,
        topic_partitions=[],
    )
    check_request(request, 1, service.config.group_consumer_assignors)
    known = service.machine.groups.get(GROUP)
    draft = GroupDraft(known if isinstance(known, ConsumerGroup) else ConsumerGroup(GROUP))
    facts = service.world()._replace(viewers=others, rules=RULES)
    member_heartbeat(draft, request, "client", "/host", facts, own)
    service.write(draft)


def refreshed(service: Service, viewers: Mapping[str, TopicViewer], rules: object = RULES) -> frozenset[str]:
    """A look without a heartbeat, as when topics come."""
    service.now_ms += 10_000
    draft = GroupDraft(service.group)
    refresh(draft, service.world()._replace(viewers=viewers, rules=rules), changed=False)
    service.write(draft)
    return service.group.resolved[REGEX].topics


def a_group() -> tuple[Service, dict[str, TopicViewer]]:
    service = Service()
    for name in ("t-one", "t-two", "t-three"):
        service.topic(name, 1)
    ann, bob = viewer("t-one", "t-two"), viewer("t-two", "t-three", "t-four")
    joined(service, "ann", ann, {})
    joined(service, "bob", bob, {"ann": ann})
    return service, {"ann": ann, "bob": bob}


def test_members_of_one_expression_have_what_all_of_them_may_describe() -> None:
    service, viewers = a_group()
    assert service.group.resolved[REGEX].topics == {"t-two"}
    service.topic("t-four", 1)
    assert refreshed(service, viewers) == {"t-two"}


def test_rights_that_change_are_a_reason_to_look_again() -> None:
    service, viewers = a_group()
    more, rules = viewer("t-one", "t-two", "t-three"), object()
    viewers["ann"] = more
    assert refreshed(service, viewers) == {"t-two"}, "nothing says that anything has changed"
    assert refreshed(service, viewers, rules) == {"t-two", "t-three"}


def test_after_a_failover_nothing_is_added_before_all_members_are_known() -> None:
    service, viewers = a_group()
    wide = viewer("t-one", "t-two", "t-three", "t-four")
    service.topic("t-four", 1)
    assert refreshed(service, {"ann": wide}) == {"t-two"}, "bob has not been heard of"
    assert refreshed(service, {"ann": wide, "bob": viewers["bob"]}) == {"t-two", "t-three", "t-four"}
