"""Broker settings about replicas, producers and transactions.  See `tidelog.config.setting`."""

REPLICATION = """
alter.log.dirs.replication.quota.window.num int 11 1.. n/a:throttle-window
  Windows kept to measure moves between folders.
alter.log.dirs.replication.quota.window.size.seconds int 1 1.. n/a:throttle-window
  Length of a window that measures moves between folders.
auto.leader.rebalance.enable boolean true built
  Give leadership back to preferred replicas from time to time.
delete.records.purgatory.purge.interval.requests int 1 n/a:purgatory
  How many finished waits for deleted records are kept before they are swept.
fetch.purgatory.purge.interval.requests int 1000 n/a:purgatory
  How many finished waits for records are kept before they are swept.
follower.fetch.last.tiered.offset.enable boolean false built dynamic
  Let a new follower start where remote storage ends.
follower.replication.throttled.rate long 9223372036854775807 0.. built dynamic unlisted
  Bytes per second that this broker copies as a follower, over all replicas that topic settings list as throttled.
inter.broker.listener.name string null built
  Listener that brokers use among themselves.
leader.imbalance.check.interval.seconds long 300 1.. built
  How often leadership is checked for balance.
leader.replication.throttled.rate long 9223372036854775807 0.. built dynamic unlisted
  Bytes per second that this broker sends to lagging followers, over all replicas that topic settings list as throttled.
num.replica.fetchers int 1 1.. dynamic n/a:fetcher
  Connections a follower uses for each leader.
producer.purgatory.purge.interval.requests int 1000 n/a:purgatory
  How many finished waits of producers are kept before they are swept.
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 0.. built dynamic unlisted
  Bytes per second that moves of replicas between the log directories of this broker copy.
replica.fetch.backoff.ms int 1000 0.. built
  Pause of a follower after a failed fetch.
replica.fetch.max.bytes int 1048576 0.. built
  Bytes of one partition that a follower asks for.
replica.fetch.min.bytes int 1 built
  Bytes a follower's fetch waits for.
replica.fetch.response.max.bytes int 10485760 0.. built
  Bytes of all partitions that a follower asks for.
replica.fetch.wait.max.ms int 500 built
  How long a follower's fetch may wait.
replica.high.watermark.checkpoint.interval.ms long 5000 built
  How often committed offsets are written down.
replica.lag.time.max.ms long 30000 built
  A follower that has not caught up for this long leaves the in-sync set (ISR).
replica.selector.class string null org.apache.kafka.common.replica.RackAwareReplicaSelector built
  Class that chooses the replica a consumer reads from.
replica.socket.receive.buffer.bytes int 65536 n/a:fetcher
  Receive buffer of a follower's connection.
replica.socket.timeout.ms int 30000 built
  How long an exchange with a leader may take.
replication.quota.window.num int 11 1.. n/a:throttle-window
  Windows kept to measure replication.
replication.quota.window.size.seconds int 1 1.. n/a:throttle-window
  Length of a window that measures replication.
unclean.leader.election.enable boolean false built dynamic
  Default of the topic setting unclean.leader.election.enable.
add.partitions.to.txn.retry.backoff.max.ms int 100 0.. built
  Longest pause before adding partitions to a transaction is tried again.
add.partitions.to.txn.retry.backoff.ms int 20 1.. built
  Pause before adding partitions to a transaction is tried again.
producer.id.expiration.ms int 86400000 1.. built dynamic
  A partition forgets the state of a producer that has not written to it for this long.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1.. built
  How often transactions that took too long are looked for.
transaction.max.timeout.ms int 900000 1.. built
  Longest transaction a producer may ask for.
transaction.partition.verification.enable boolean true built dynamic
  Check that a partition belongs to the transaction before writing to it.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 1.. built
  How often expired transactional ids are looked for.
transaction.state.log.load.buffer.size int 5242880 1.. n/a:load-buffer
  Bytes read at once when transactions are loaded.
transaction.state.log.min.isr int 2 1.. built
  Least in-sync replicas of the transactions topic.
transaction.state.log.num.partitions int 50 1.. built
  Partitions of the transactions topic.
transaction.state.log.replication.factor short 3 1.. built
  Replicas of the transactions topic; if fewer machines run at its creation, the topic gets the others when they join.
transaction.state.log.segment.bytes int 104857600 1.. built
  Segment size of the transactions topic.
transaction.two.phase.commit.enable boolean false built
  Allow transactions that never time out, because an outside coordinator ends them.
transactional.id.expiration.ms int 604800000 1.. built
  A transactional id unused for this long is forgotten.
"""
