"""A member of a share group: the coordinator's heartbeat without anything to give up, since partitions have
many readers.  Pure."""

from __future__ import annotations

from tidelog.client.groups.consumer_membership import LEAVE_EPOCH, ConsumerMembership
from tidelog.client.groups.membership import CoordinatorRequest
from tidelog.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


class ShareMembership(ConsumerMembership):
    def __init__(self, group_id: str, member_id: str, rack: str | None = None) -> None:
        super().__init__(group_id, member_id, rebalance_timeout_ms=-1, rack=rack)

    def applied(self) -> None:
        super().applied()
        self._acknowledged = self._owned  # The coordinator does not wait for this acknowledgement.

    def _leave_request(self) -> CoordinatorRequest:
        return self._ask(LEAVE_EPOCH)

    def _ask(self, epoch: int) -> CoordinatorRequest:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            subscribed_topic_names=None,
        )
        return CoordinatorRequest(request, ShareGroupHeartbeatResponse)

    def _heartbeat(self) -> CoordinatorRequest:
        ask = self._ask(self._epoch)
        subscription = (self._topics, self._pattern)
        if self._fresh:
            ask.request.rack_id = self._rack
        if self._fresh or self._sent_subscription != subscription:
            ask.request.subscribed_topic_names = list(self._topics or ())
        self._in_flight_state = (subscription, self._owned)
        return ask
