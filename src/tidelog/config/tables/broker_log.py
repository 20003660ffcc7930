"""Broker settings about data on disk, and the defaults of topic settings.  See `tidelog.config.setting`."""

LOG = """
auto.create.topics.enable boolean true built
  Create a topic when a client asks for metadata of one that does not exist.
compression.gzip.level int -1 -1|1..9 built dynamic
  Default of the topic setting compression.gzip.level.
compression.lz4.level int 9 1..17 built dynamic
  Default of the topic setting compression.lz4.level.
compression.type string producer uncompressed|zstd|lz4|snappy|gzip|producer built dynamic
  Default of the topic setting compression.type.
compression.zstd.level int 3 -131072..22 built dynamic
  Default of the topic setting compression.zstd.level.
cordoned.log.dirs list "" dynamic built
  Log directories that get no new partitions; *: all of this broker.
default.replication.factor int 1 built
  Replication factor of a topic that is created without one.
delete.topic.enable boolean true built
  Allow topics to be deleted.
encryption.cache.bytes long 16777216 0.. built unlisted
  Memory for decrypted bytes that several consumers read; all log directories share it.
encryption.file.keys.dir string null built unlisted
  Folder of the keys that encryption.key names as file:NAME; tidelog keys create makes them.
encryption.key string none built dynamic unlisted
  Default of the topic setting encryption.key.
encryption.refresh.ms long 10000 100.. built unlisted
  How often keys are looked at for new versions and deleted keys, and asked for again while they are not available.
encryption.vault.ca.file string null built unlisted
  Certificates of the authorities that Vault's certificate may come from, as PEM; the system's if not set.
encryption.vault.mount string transit built unlisted
  Where the transit engine is mounted in Vault or OpenBao.
encryption.vault.token.file string null built unlisted
  File with the token for Vault; it is read again for every request, so an agent can renew it.
encryption.vault.url string null built unlisted
  Address of the Vault or OpenBao server with the keys that encryption.key names as vault:NAME.
log.cleaner.backoff.ms long 15000 0.. built dynamic
  Pause of the compactor when there is nothing to compact.
log.cleaner.dedupe.buffer.size long 134217728 built dynamic
  Memory for the map of keys while compacting, in bytes.
log.cleaner.delete.retention.ms long 86400000 0.. built dynamic
  Default of the topic setting delete.retention.ms.
log.cleaner.enable boolean true built
  Run the compactor.
log.cleaner.io.buffer.load.factor double 0.9 dynamic n/a:keys-map
  How full the map of keys may become while compacting.
log.cleaner.io.buffer.size int 524288 0.. dynamic n/a:cleaner-buffer
  Memory for reading and writing while compacting, in bytes.
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 1.. built dynamic
  Bound on the bytes the compactor reads and writes in a second.
log.cleaner.max.compaction.lag.ms long 9223372036854775807 1.. built dynamic
  Default of the topic setting max.compaction.lag.ms.
log.cleaner.min.cleanable.ratio double 0.5 0..1 built dynamic
  Default of the topic setting min.cleanable.dirty.ratio.
log.cleaner.min.compaction.lag.ms long 0 0.. built dynamic
  Default of the topic setting min.compaction.lag.ms.
log.cleaner.threads int 1 0.. built dynamic
  Compactions that run at the same time.
log.cleanup.policy list delete compact|delete built dynamic
  Default of the topic setting cleanup.policy.
log.dir list data built
  Folders for the data, used when log.dirs is not set.
log.dir.failure.timeout.ms long 30000 1.. n/a:directory
  How long a broker waits to report a failed log directory before it stops.
log.dirs list null built
  Folders for the data, one per disk; partitions are spread over them.
log.flush.interval.messages long 9223372036854775807 1.. built dynamic
  Default of the topic setting flush.messages.
log.flush.interval.ms long null built dynamic
  Default of the topic setting flush.ms; without it log.flush.scheduler.interval.ms counts.
log.flush.offset.checkpoint.interval.ms int 60000 0.. built
  How often the recovery points of all partitions are written down.
log.flush.scheduler.interval.ms long 9223372036854775807 built
  Default of flush.ms when log.flush.interval.ms is not set.
log.flush.start.offset.checkpoint.interval.ms int 60000 0.. built
  How often the start offsets of all partitions are written down.
log.index.interval.bytes int 4096 0.. built dynamic
  Default of the topic setting index.interval.bytes.
log.index.size.max.bytes int 10485760 4.. built dynamic
  Default of the topic setting segment.index.bytes.
log.initial.task.delay.ms long 30000 0.. built internal unlisted
  How long after the start retention is first looked at, unless its interval is shorter.
log.local.retention.bytes long -2 -2.. built dynamic
  Default of the topic setting local.retention.bytes.
log.local.retention.ms long -2 -2.. built dynamic
  Default of the topic setting local.retention.ms.
log.message.timestamp.after.max.ms long 3600000 0.. built dynamic
  Default of the topic setting message.timestamp.after.max.ms.
log.message.timestamp.before.max.ms long 9223372036854775807 0.. built dynamic
  Default of the topic setting message.timestamp.before.max.ms.
log.message.timestamp.type string CreateTime CreateTime|LogAppendTime built dynamic
  Default of the topic setting message.timestamp.type.
log.preallocate boolean false built dynamic
  Default of the topic setting preallocate.
log.retention.bytes long -1 built dynamic
  Default of the topic setting retention.bytes.
log.retention.check.interval.ms long 300000 1.. built
  How often segments are checked against retention.
log.retention.hours int 168 built
  Default of the topic setting retention.ms, in hours, when neither minutes nor ms are set.
log.retention.minutes int null built
  Default of the topic setting retention.ms, in minutes, when log.retention.ms is not set.
log.retention.ms long null built dynamic
  Default of the topic setting retention.ms.
log.roll.hours int 168 1.. built
  Default of the topic setting segment.ms, in hours, when log.roll.ms is not set.
log.roll.jitter.hours int 0 0.. built
  Default of the topic setting segment.jitter.ms, in hours, when log.roll.jitter.ms is not set.
log.roll.jitter.ms long null built dynamic
  Default of the topic setting segment.jitter.ms.
log.roll.ms long null built dynamic
  Default of the topic setting segment.ms.
log.segment.bytes int 1073741824 1048576.. built dynamic
  Default of the topic setting segment.bytes.
log.segment.delete.delay.ms long 60000 0.. built dynamic
  Default of the topic setting file.delete.delay.ms.
message.max.bytes int 1048588 0.. built dynamic
  Default of the topic setting max.message.bytes.
min.insync.replicas int 1 1.. built dynamic
  Default of the topic setting min.insync.replicas, for all brokers: a cluster takes its first broker's value, later changes are dynamic.
num.partitions int 1 1.. built
  Number of partitions of a topic that is created without one.
num.recovery.threads.per.data.dir int 2 1.. dynamic n/a:recovery
  Threads that check the logs of one folder at start and sync them at the end.
num.replica.alter.log.dirs.threads int null n/a:threads
  Threads that move replicas between the folders of a broker.
remote.fetch.max.wait.ms int 500 1.. built dynamic
  How long a fetch waits for remote storage.
remote.list.offsets.request.timeout.ms long 30000 1.. built dynamic
  How long a search for offsets waits for remote storage.
remote.log.index.file.cache.total.size.bytes long 1073741824 1.. built dynamic
  Memory for what is kept of the indexes of remote segments.
remote.log.manager.copier.thread.pool.size int 10 1.. built dynamic
  Segments that are copied to remote storage at the same time.
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 1.. built dynamic
  Bound on the bytes copied to remote storage in a second.
remote.log.manager.copy.quota.window.num int 11 1.. n/a:tier-window
  Windows kept to measure copying to remote storage.
remote.log.manager.copy.quota.window.size.seconds int 1 1.. n/a:tier-window
  Length of a window that measures copying to remote storage.
remote.log.manager.expiration.thread.pool.size int 10 1.. built dynamic
  Partitions whose expired remote segments are deleted at the same time.
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 1.. built dynamic
  Bound on the bytes read from remote storage in a second.
remote.log.manager.fetch.quota.window.num int 11 1.. n/a:tier-window
  Windows kept to measure reading from remote storage.
remote.log.manager.fetch.quota.window.size.seconds int 1 1.. n/a:tier-window
  Length of a window that measures reading from remote storage.
remote.log.manager.follower.thread.pool.size int 2 1.. dynamic n/a:threads
  Threads that follow remote storage for replicas that do not lead.
remote.log.manager.task.interval.ms long 30000 1.. built
  How often remote storage has its turn for a partition.
remote.log.manager.thread.pool.size int 2 1.. n/a:threads
  Threads shared by the tasks of remote storage.
remote.log.metadata.custom.metadata.max.bytes int 128 0.. n/a:plug-in
  Bound on what a remote storage plug-in may add to a segment's metadata.
remote.log.metadata.manager.class.name string org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager n/a:manifests
  Class of the plug-in that keeps the metadata of remote segments.
remote.log.metadata.manager.class.path string null n/a:manifests
  Where the plug-in for remote metadata is loaded from.
remote.log.metadata.manager.impl.prefix string rlmm.config. n/a:manifests
  Prefix of the settings handed to the plug-in for remote metadata.
remote.log.metadata.manager.listener.name string null n/a:manifests
  Listener that the plug-in for remote metadata connects to.
remote.log.reader.max.pending.tasks int 100 1.. built
  Bound on reads of remote storage that wait for their turn.
remote.log.reader.threads int 10 1.. built dynamic
  Reads of remote storage at the same time.
remote.log.storage.manager.class.name string null n/a:plug-in
  Class of the plug-in that holds remote segments.
remote.log.storage.manager.class.path string null n/a:plug-in
  Where the plug-in for remote segments is loaded from.
remote.log.storage.manager.impl.prefix string rsm.config. n/a:plug-in
  Prefix of the settings handed to the plug-in for remote segments.
remote.log.storage.system.enable boolean false built
  Run remote storage in this broker.
"""  # noqa: E501
