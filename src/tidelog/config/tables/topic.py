"""Every topic setting of Kafka 4.3: names, types, defaults and allowed values are Kafka's, the documentation is ours.

`tidelog.config.setting` describes the format; `tidelog.config.topic` reads the table."""

TOPIC = """
cleanup.policy list delete compact|delete built
  Fate of old segments: delete, compact (keep the last record of each key), both, or neither when empty.
compression.gzip.level int -1 -1|1..9 built
  Level used when this topic re-encodes batches with gzip; -1 leaves it to the library.
compression.lz4.level int 9 1..17 built
  Level used when this topic re-encodes batches with lz4.
compression.type string producer uncompressed|zstd|lz4|snappy|gzip|producer built
  Codec that batches are kept in; producer keeps the one they came with.
compression.zstd.level int 3 -131072..22 built
  Level used when this topic re-encodes batches with zstd.
conditional.append.enable boolean false built unlisted
  Refuse a batch when a key's version, or the end of the partition, is not what its headers tidelog.expected.* say.
confluent.key.schema.validation boolean false built unlisted
  Take only records whose key names a schema that the registry has for this topic, in Confluent's framing.
confluent.key.subject.name.strategy string io.confluent.kafka.serializers.subject.TopicNameStrategy io.confluent.kafka.serializers.subject.TopicNameStrategy|io.confluent.kafka.serializers.subject.RecordNameStrategy|io.confluent.kafka.serializers.subject.TopicRecordNameStrategy built unlisted
  Which subject must have the schema of a record's key, where that is checked: by topic, by record, or by both.
confluent.value.schema.validation boolean false built unlisted
  Take only records whose value names a schema that the registry has for this topic, in Confluent's framing.
confluent.value.subject.name.strategy string io.confluent.kafka.serializers.subject.TopicNameStrategy io.confluent.kafka.serializers.subject.TopicNameStrategy|io.confluent.kafka.serializers.subject.RecordNameStrategy|io.confluent.kafka.serializers.subject.TopicRecordNameStrategy built unlisted
  Which subject must have the schema of a record's value, where that is checked: by topic, by record, or by both.
delete.retention.ms long 86400000 0.. built
  How long a compacted topic keeps the marker of a deleted key, so that readers can see the deletion.
encryption.key string none built unlisted
  Key that new segments are encrypted with: file:NAME or vault:NAME, or none for plain files.
file.delete.delay.ms long 60000 0.. built
  How long the files of a deleted segment stay on disk.
flush.messages long 9223372036854775807 1.. built
  Sync to disk after this many records; 1 syncs before every answer.
flush.ms long 9223372036854775807 0.. built
  Sync to disk when a record has waited this long.
follower.replication.throttled.replicas list "" built
  Replicas whose copying is throttled on the follower's side, as partition:broker; * for all of them.
index.interval.bytes int 4096 0.. built
  Bytes of log between two entries of the offset index.
leader.replication.throttled.replicas list "" built
  Replicas whose copying is throttled on the leader's side, as partition:broker; * for all of them.
local.retention.bytes long -2 -2.. built
  Bytes kept on the broker's disk once older segments are in remote storage; -2 means retention.bytes.
local.retention.ms long -2 -2.. built
  Time kept on the broker's disk once older segments are in remote storage; -2 means retention.ms.
max.compaction.lag.ms long 9223372036854775807 1.. built
  A record may stay uncompacted at most this long.
max.message.bytes int 1048588 0.. built
  Largest record batch that is taken, in bytes as sent.
message.timestamp.after.max.ms long 3600000 0.. built
  How far a producer's timestamp may lie after the broker's clock.
message.timestamp.before.max.ms long 9223372036854775807 0.. built
  How far a producer's timestamp may lie before the broker's clock.
message.timestamp.type string CreateTime CreateTime|LogAppendTime built
  Whether records carry the producer's time (CreateTime) or the broker's (LogAppendTime).
min.cleanable.dirty.ratio double 0.5 0..1 built
  Share of a log that must be uncompacted before compaction takes it up.
min.compaction.lag.ms long 0 0.. built
  A record is left uncompacted at least this long.
min.insync.replicas int 1 1.. built
  Replicas that must have a write before acks=all is answered; with fewer in sync it is refused.
preallocate boolean false built
  Reserve the whole segment file when it is created.
queue.delay.ms long 0 0.. built unlisted
  Share groups of a queue get a record so long after its timestamp, unless the record brings a due time of its own.
queue.delete.consumed boolean false built unlisted
  Delete records that all share groups of queue.groups have finished.
queue.groups list "" built unlisted
  Share groups that the topic is a queue for: they start at its first record, whatever share.auto.offset.reset says.
queue.max.bytes long -1 -1.. built unlisted
  Bytes of records that may wait in one partition of a queue; -1 is no limit.
queue.max.records long -1 -1.. built unlisted
  Records that may wait in one partition of a queue; -1 is no limit.  Acquired records do not count.
queue.overflow string drop-head drop-head|reject-publish built unlisted
  What happens when a queue is too long: its oldest records are given up, or new ones are refused.
queue.priorities boolean false built unlisted
  The partitions are priorities: records of a higher partition are acquired first, and one broker leads all of them.
queue.ttl.ms long -1 -1.. built unlisted
  Time after its timestamp at which a record that no share group has acquired is given up; -1 is no limit.
remote.log.copy.disable boolean false built
  Stop copying segments to remote storage.
remote.log.delete.on.disable boolean false built
  Delete remote segments when remote storage is switched off for the topic.
remote.storage.enable boolean false built
  Move older segments to remote storage.
retention.bytes long -1 built
  Size of a partition above which its oldest segments are deleted; -1 is no limit.
retention.ms long 604800000 -1.. built
  Age above which segments are deleted; -1 is no limit.
segment.bytes int 1073741824 1048576.. built
  Size at which a new segment is started.
segment.index.bytes int 10485760 4.. built
  Size reserved for each index of a segment; a full index starts a new segment.
segment.jitter.ms long 0 0.. built
  Random time taken off segment.ms, so that segments do not all roll at once.
segment.ms long 604800000 1.. built
  Age at which a new segment is started even if it is not full.
unclean.leader.election.enable boolean false built
  Let a replica that is not in sync lead when no other is left; acknowledged records may be lost.
internal.segment.bytes int null built internal
  A segment size below the least value of segment.bytes, for tests; it wins over segment.bytes.
"""  # noqa: E501 - names are as long as Confluent has made them
