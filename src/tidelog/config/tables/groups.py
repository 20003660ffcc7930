"""Settings of groups and of client metrics subscriptions, as Kafka lists them; those that are not listed, and
`share.dead.letter.topic`, are our own.  See `tidelog.config.setting`."""

from __future__ import annotations

from tidelog.config.setting import Setting, read_table

# The default of a group's setting is the broker's setting of the same name with this prefix.
GROUP_BROKER_PREFIX = "group."

GROUP_SETTINGS: dict[str, Setting] = read_table("""
consumer.assignment.interval.ms int 1000 0.. built
  Least time between two assignments of the group.
consumer.heartbeat.interval.ms int 5000 1.. built
  Heartbeat interval of the group's members.
consumer.session.timeout.ms int 45000 1.. built
  A member silent for this long is removed.
share.assignment.interval.ms int 1000 0.. built
  Least time between two assignments of the share group.
share.auto.offset.reset string latest built
  Where a share group starts on a partition it has not read yet.
share.dead.letter.topic string "" built
  Topic that gets the records a share group gives up; none when empty.
share.delivery.count.limit int 5 -1|2.. built
  How often a record is delivered before it is given up; -1 is no limit.
share.heartbeat.interval.ms int 5000 1.. built
  Heartbeat interval of the share group's members.
share.isolation.level string read_uncommitted read_committed|read_uncommitted built
  Whether a share group reads records of open or aborted transactions.
share.order string offset offset|key built unlisted
  Order of delivery: by offset, or by key, so that one consumer at a time has records of a key.
share.partition.max.record.locks int 2000 100.. built
  Bound on the acquired records of a partition.
share.record.lock.duration.ms int 30000 1000.. built
  How long a record stays acquired.
share.renew.acknowledge.enable boolean true built
  Let members renew the lock on an acquired record.
share.retry.backoff.max.ms int 60000 0.. built unlisted
  Longest time that a released record rests.
share.retry.backoff.ms int 0 0.. built unlisted
  How long a record rests that was released after its first delivery; twice as long after each further one.
share.session.timeout.ms int 45000 1.. built
  A member of the share group silent for this long is removed.
share.single.active.consumer boolean false built unlisted
  Deliver the records of a partition to one consumer as long as it is there, then to the next one.
streams.assignment.interval.ms int 1000 0.. built
  Least time between two assignments of the streams group.
streams.heartbeat.interval.ms int 5000 1.. built
  Heartbeat interval of the streams group's members.
streams.initial.rebalance.delay.ms int 3000 0.. built
  How long a new streams group waits for more members.
streams.num.standby.replicas int 0 0.. built
  Standby copies of each task.
streams.session.timeout.ms int 45000 1.. built
  A member of the streams group silent for this long is removed.
""")

CLIENT_METRICS_SETTINGS: dict[str, Setting] = read_table("""
interval.ms int 300000 100..3600000 built
  How often a client pushes its metrics.
match list "" built
  Which clients are asked for metrics.
metrics list "" built
  Prefixes of the names of the metrics that are asked for.
""")
