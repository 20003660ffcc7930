"""Who may do what: RabbitMQ's permissions are ACLs on topics.

*Configure* a queue or an exchange is CREATE, or DELETE, of the topic of that name; *write* is WRITE, *read* is READ.  An
exchange has no topic, but its name is matched like one.  To publish to the default exchange takes WRITE on the queue."""

from __future__ import annotations

from collections.abc import Callable, Container

from tidelog.broker.gate import Gate
from tidelog.broker.session import Session
from tidelog.gateways.amqp.replies import access_refused
from tidelog.gateways.amqp.topology.model import AmqpQueue, topic_of
from tidelog.wire.acls import AclOperation, AclResourceType

CONFIGURE, DELETE, WRITE, READ = (
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.WRITE,
    AclOperation.READ,
)
_PERMISSIONS = {CONFIGURE: "configure", DELETE: "configure", WRITE: "write", READ: "read"}


class Rights:
    def __init__(
        self,
        gate: Gate,
        session: Session,
        vhost: str,
        tenant: str | None,
        topics: Callable[[], Container[str]],
    ) -> None:
        """`topics`: the names that are taken."""
        self._gate = gate
        self._topics = topics
        self._session = session
        self._vhost = vhost
        self._tenant = tenant

    def check_queue(self, operation: AclOperation, name: str, queue: AmqpQueue | None = None) -> None:
        """`queue`: as it was declared, if it was."""
        topic = topic_of(name, self._tenant) if queue is None else queue.topic
        self._check(operation, topic, "queue", name)

    def check_exchange(self, operation: AclOperation, name: str) -> None:
        self._check(
            operation, topic_of(name or "amq.default", self._tenant), "exchange", name or "amq.default"
        )

    def sees_queue(self, name: str, queue: AmqpQueue | None) -> bool:
        """False: the queue is answered as one that is not there."""
        return self._sees(topic_of(name, self._tenant) if queue is None else queue.topic)

    def sees_exchange(self, name: str) -> bool:
        return self._sees(topic_of(name, self._tenant))

    def _sees(self, topic: str) -> bool:
        sees = self._gate.sees
        return any(
            sees(self._session, operation, AclResourceType.TOPIC, topic)
            for operation in (AclOperation.DESCRIBE, CONFIGURE)
        )

    def check_topic_of(self, name: str) -> None:
        """A queue that is declared on a topic that is there changes the settings of the topic."""
        topic = topic_of(name, self._tenant)
        if topic in self._topics() and not self._gate.allows(
            self._session, AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC, topic
        ):
            raise access_refused(
                f"topic '{topic}' is there already: making it a queue takes ALTER_CONFIGS on it, which user "
                f"'{self._session.user}' does not have"
            )

    def may_store(self, queue: AmqpQueue) -> bool:
        """False when the tenant of the queue has no room left."""
        return not self._gate.is_full(queue.topic)

    def _check(self, operation: AclOperation, topic: str, kind: str, name: str) -> None:
        if not self._gate.allows(self._session, operation, AclResourceType.TOPIC, topic):
            raise access_refused(
                f"{_PERMISSIONS[operation]} access to {kind} '{name}' in vhost '{self._vhost}' refused for user "
                f"'{self._session.user}'"
            )
