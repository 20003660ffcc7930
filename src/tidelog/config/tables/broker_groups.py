"""Broker settings about consumer, share and streams groups.  See `tidelog.config.setting`."""

GROUPS = """
group.consumer.assignment.interval.ms int 1000 0.. built dynamic
  Least time between two assignments of a consumer group.
group.consumer.assignors list uniform,range uniform|range built
  Assignors of consumer groups, the first by default.
group.consumer.heartbeat.interval.ms int 5000 1.. built
  Heartbeat interval of consumer group members.
group.consumer.max.assignment.interval.ms int 15000 0.. built
  Largest assignment interval a consumer group may set.
group.consumer.max.heartbeat.interval.ms int 15000 1.. built
  Largest heartbeat interval a consumer group may set.
group.consumer.max.session.timeout.ms int 60000 1.. built
  Largest session timeout a consumer group may set.
group.consumer.max.size int 2147483647 1.. built
  Most members of a consumer group.
group.consumer.migration.policy string bidirectional disabled|downgrade|upgrade|bidirectional built
  Whether groups may move between the classic and the consumer protocol.
group.consumer.min.assignment.interval.ms int 0 0.. built
  Smallest assignment interval a consumer group may set.
group.consumer.min.heartbeat.interval.ms int 5000 1.. built
  Smallest heartbeat interval a consumer group may set.
group.consumer.min.session.timeout.ms int 45000 1.. built
  Smallest session timeout a consumer group may set.
group.consumer.session.timeout.ms int 45000 1.. built
  A consumer group member silent for this long is removed.
group.coordinator.append.linger.ms int -1 -1.. n/a:linger
  How long the group coordinator collects records before it writes them.
group.coordinator.background.threads int 2 1.. n/a:threads
  Threads for background work of the group coordinator.
group.coordinator.cached.buffer.max.bytes int 1048588 524288.. dynamic n/a:append-buffer
  Largest write buffer the group coordinator keeps for reuse.
group.coordinator.rebalance.protocols list classic,consumer,streams consumer|classic|share|streams built
  Kinds of groups that are served.
group.coordinator.threads int 4 1.. n/a:threads
  Threads of the group coordinator.
group.initial.rebalance.delay.ms int 3000 built
  How long a new classic group waits for more members.
group.max.session.timeout.ms int 1800000 built
  Largest session timeout of a classic group member.
group.max.size int 2147483647 1.. built
  Most members of a classic group.
group.min.session.timeout.ms int 6000 built
  Smallest session timeout of a classic group member.
group.share.assignment.interval.ms int 1000 0.. built dynamic
  Least time between two assignments of a share group.
group.share.assignors list simple simple built
  Assignors of share groups.
group.share.delivery.count.limit int 5 2..10 built
  How often a record of a share group is delivered before it is given up.
group.share.heartbeat.interval.ms int 5000 1.. built
  Heartbeat interval of share group members.
group.share.max.assignment.interval.ms int 15000 0.. built
  Largest assignment interval a share group may set.
group.share.max.delivery.count.limit int 10 5..25 built
  Largest delivery count a share group may set.
group.share.max.heartbeat.interval.ms int 15000 1.. built
  Largest heartbeat interval a share group may set.
group.share.max.partition.max.record.locks int 4000 2000..10000 built
  Largest bound on acquired records a share group may set.
group.share.max.record.lock.duration.ms int 60000 30000..3600000 built
  Longest lock on acquired records a share group may set.
group.share.max.session.timeout.ms int 60000 1.. built
  Largest session timeout a share group may set.
group.share.max.share.sessions int 2000 1.. built
  Bound on the share sessions kept.
group.share.max.size int 200 1..1000 built
  Most members of a share group.
group.share.min.assignment.interval.ms int 0 0.. built
  Smallest assignment interval a share group may set.
group.share.min.delivery.count.limit int 2 2..5 built
  Smallest delivery count a share group may set.
group.share.min.heartbeat.interval.ms int 5000 1.. built
  Smallest heartbeat interval a share group may set.
group.share.min.partition.max.record.locks int 100 100..2000 built
  Smallest bound on acquired records a share group may set.
group.share.min.record.lock.duration.ms int 15000 1000..30000 built
  Shortest lock on acquired records a share group may set.
group.share.min.session.timeout.ms int 45000 1.. built
  Smallest session timeout a share group may set.
group.share.partition.max.record.locks int 2000 100..10000 built
  Bound on acquired records of a partition in a share group.
group.share.record.lock.duration.ms int 30000 1000..3600000 built
  How long a record of a share group stays acquired.
group.share.session.timeout.ms int 45000 1.. built
  A share group member silent for this long is removed.
group.streams.assignment.interval.ms int 1000 0.. built dynamic
  Least time between two assignments of a streams group.
group.streams.heartbeat.interval.ms int 5000 1.. built
  Heartbeat interval of streams group members.
group.streams.initial.rebalance.delay.ms int 3000 0.. built
  How long a new streams group waits for more members.
group.streams.max.assignment.interval.ms int 15000 0.. built
  Largest assignment interval a streams group may set.
group.streams.max.heartbeat.interval.ms int 15000 1.. built
  Largest heartbeat interval a streams group may set.
group.streams.max.session.timeout.ms int 60000 1.. built
  Largest session timeout a streams group may set.
group.streams.max.size int 2147483647 1.. built
  Most members of a streams group.
group.streams.max.standby.replicas int 2 0.. built
  Most standby copies a streams group may set.
group.streams.min.assignment.interval.ms int 0 0.. built
  Smallest assignment interval a streams group may set.
group.streams.min.heartbeat.interval.ms int 5000 1.. built
  Smallest heartbeat interval a streams group may set.
group.streams.min.session.timeout.ms int 45000 1.. built
  Smallest session timeout a streams group may set.
group.streams.num.standby.replicas int 0 0.. built
  Standby copies of each task of a streams group.
group.streams.session.timeout.ms int 45000 1.. built
  A streams group member silent for this long is removed.
offset.metadata.max.bytes int 4096 built
  Longest text a consumer may store with an offset.
offsets.commit.timeout.ms int 5000 1.. built
  How long a commit of offsets waits for replicas.
offsets.load.buffer.size int 5242880 1.. n/a:load-buffer
  Bytes read at once when offsets are loaded.
offsets.retention.check.interval.ms long 600000 1.. built
  How often expired offsets are looked for.
offsets.retention.minutes int 10080 1.. built
  How long the offsets of an empty group are kept.
offsets.topic.compression.codec int 0 0..4 built
  Codec of the offsets topic, as Kafka's number.
offsets.topic.num.partitions int 50 1.. built
  Partitions of the offsets topic.
offsets.topic.replication.factor short 3 1.. built
  Replicas of the offsets topic; if fewer machines run at its creation, the topic gets the others when they join.
offsets.topic.segment.bytes int 104857600 1.. built
  Segment size of the offsets topic.
share.coordinator.append.linger.ms int -1 -1.. n/a:linger
  How long the share coordinator collects records before it writes them.
share.coordinator.cached.buffer.max.bytes int 1048588 524288.. dynamic n/a:append-buffer
  Largest write buffer the share coordinator keeps for reuse.
share.coordinator.load.buffer.size int 5242880 1.. n/a:load-buffer
  Bytes read at once when share state is loaded.
share.coordinator.snapshot.update.records.per.snapshot int 500 0..500 built
  Changes of share state between two full records.
share.coordinator.state.topic.compression.codec int 0 0..4 built
  Codec of the share state topic, as Kafka's number.
share.coordinator.state.topic.min.isr short 2 1.. built
  Least in-sync replicas of the share state topic.
share.coordinator.state.topic.num.partitions int 50 1.. built
  Partitions of the share state topic.
share.coordinator.state.topic.replication.factor short 3 1.. built
  Replicas of the share state topic; if fewer machines run at its creation, the topic gets the others when they join.
share.coordinator.state.topic.segment.bytes int 104857600 1.. built
  Segment size of the share state topic.
share.coordinator.threads int 1 1.. n/a:threads
  Threads of the share coordinator.
share.coordinator.write.timeout.ms int 5000 1.. built
  How long a write of share state waits for replicas.
share.fetch.purgatory.purge.interval.requests int 1000 n/a:purgatory
  How many finished waits of share groups are kept before they are swept.
"""
