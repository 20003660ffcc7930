"""Broker settings about the node, its listeners, requests, metrics and cluster membership.
See `tidelog.config.setting`."""

NETWORK = """
advertised.listeners list null built
  Addresses that clients are told to connect to; by default those of listeners.
alter.config.policy.class.name class null n/a:policies
  Class that may refuse changes of settings.
authorizer.class.name string "" built
  Who may do what: tidelog, or the name of Kafka's StandardAuthorizer, checks ACLs; empty, everybody may do everything.
background.threads int 10 1.. dynamic n/a:threads
  Threads for background work.
broker.heartbeat.interval.ms int 2000 n/a:lease
  How often a broker tells the controller that it lives.
broker.id int -1 built
  Another name of node.id.
broker.rack string null built
  Where this broker stands; replicas are spread over racks.
broker.session.timeout.ms int 9000 n/a:lease
  How long the controller waits for a silent broker.
client.quota.callback.class class null n/a:policies
  Class that decides which quota a client gets.
config.providers list "" dynamic built
  Names of providers that look up values of settings at the start; config.providers.NAME.class has the class of each.
connection.failed.authentication.delay.ms int 100 0.. built
  Pause before a connection that failed to authenticate is closed.
connections.max.idle.ms long 600000 built
  A connection without traffic for this long is closed.
connections.max.reauth.ms long 0 built
  How long a client may stay connected before it authenticates again.
controlled.shutdown.enable boolean true built
  Hand leadership over before stopping.
controller.listener.names list "" built
  Listeners of the controller.
controller.quorum.append.linger.ms int 25 0.. n/a:kraft
  How long the controller collects records before it writes them.
controller.quorum.auto.join.enable boolean false n/a:kraft
  Let new controllers join the quorum by themselves.
controller.quorum.bootstrap.servers list "" n/a:kraft
  Addresses at which the controllers can be found.
controller.quorum.election.backoff.max.ms int 1000 0.. n/a:kraft
  Longest pause before a new election of the controller.
controller.quorum.election.timeout.ms int 1000 0.. n/a:kraft
  How long a candidate waits for votes.
controller.quorum.fetch.max.bytes int 1048576 1.. n/a:kraft
  Bytes of metadata in one answer of the controller.
controller.quorum.fetch.snapshot.max.bytes int 1048576 1.. n/a:kraft
  Bytes of a metadata snapshot in one answer of the controller.
controller.quorum.fetch.timeout.ms int 2000 0.. n/a:kraft
  How long without the controller before a new one is elected.
controller.quorum.request.timeout.ms int 2000 0.. n/a:kraft
  How long a request to the controllers may take.
controller.quorum.retry.backoff.ms int 20 0.. n/a:kraft
  Pause before a request to the controllers is sent again.
controller.quorum.voters list "" n/a:kraft
  The controllers that vote, as id@host:port.
controller.quota.window.num int 11 1.. built
  Windows kept to measure the rate of metadata changes.
controller.quota.window.size.seconds int 1 1.. built
  Length of a window that measures the rate of metadata changes.
controller.socket.timeout.ms int 30000 n/a:kraft
  How long an exchange with the controller may take.
create.topic.policy.class.name class null n/a:policies
  Class that may refuse new topics.
early.start.listeners list null n/a:startup-listeners
  Listeners that open before the broker is ready.
fetch.max.bytes int 57671680 1024.. built
  Largest answer to one fetch, in bytes.
initial.broker.registration.timeout.ms int 60000 n/a:start-wait
  How long a starting broker waits for the controller.
kafka.metrics.polling.interval.secs int 10 1.. n/a:reporters
  How often metrics reporters are asked.
kafka.metrics.reporters list "" n/a:reporters
  Classes that report metrics of the older kind.
listener.security.protocol.map string SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT built dynamic
  The protocol of each listener's name.
listeners list PLAINTEXT://127.0.0.1:9092 built
  Address this broker listens on, as PLAINTEXT://host:port; port 0 picks a free one.
max.connection.creation.rate int 2147483647 0.. built dynamic
  Bound on new connections in a second, of the broker and of each listener; more are accepted later.
max.connections int 2147483647 0.. built dynamic
  Bound on open connections of this broker; as a setting of a listener, on its own ones.
max.connections.per.ip int 2147483647 0.. built dynamic
  Bound on open connections from one address.
max.connections.per.ip.overrides string "" built dynamic
  Bounds on open connections for single addresses, as 127.0.0.1:200,10.0.0.7:100.
max.incremental.fetch.session.cache.slots int 1000 0.. built
  Bound on the incremental fetch sessions kept.
max.request.partition.size.limit int 2000 1.. built
  Most partitions in one answer to DescribeTopicPartitions.
metadata.log.dir string null n/a:kraft
  Folder of the metadata log.
metadata.log.max.record.bytes.between.snapshots long 20971520 1.. n/a:kraft
  Bytes of metadata changes after which a snapshot is written.
metadata.log.max.snapshot.interval.ms long 3600000 0.. n/a:kraft
  Time after which a snapshot of changed metadata is written.
metadata.log.segment.bytes int 1073741824 8388608.. n/a:kraft
  Size at which the metadata log starts a new segment.
metadata.log.segment.ms long 604800000 n/a:kraft
  Age at which the metadata log starts a new segment.
metadata.max.idle.interval.ms int 500 0.. n/a:kraft
  How often an idle controller writes a sign of life.
metadata.max.retention.bytes long 104857600 n/a:kraft
  Size above which old metadata snapshots are deleted.
metadata.max.retention.ms long 604800000 n/a:kraft
  Age above which old metadata snapshots are deleted.
metric.reporters list org.apache.kafka.common.metrics.JmxReporter dynamic n/a:reporters
  Classes that report metrics.
metrics.num.samples int 2 1.. n/a:samples
  Samples kept for a metric.
metrics.recording.level string INFO n/a:samples
  Most detailed level of metrics that is recorded.
metrics.sample.window.ms long 30000 1.. n/a:samples
  Length of a sample of a metric.
node.id int 1 0.. built
  Number of this broker, unique in the cluster.
num.io.threads int 8 1.. dynamic n/a:threads
  Threads that work on requests.
num.network.threads int 3 1.. dynamic n/a:threads
  Threads that read requests and write answers.
process.roles list broker,controller broker|controller built
  Roles of this process; a Tidelog process is broker and controller.
queued.max.request.bytes long -1 -1.. built
  Bytes of waiting requests above which no more are read; -1: an eighth of the machine's memory (Kafka: no bound).
queued.max.requests int 500 1.. n/a:in-flight
  Waiting requests above which no more are read.
quota.consumer.default long 9223372036854775807 1.. built dynamic unlisted
  Bytes a second that every client id may fetch, unless a quota says otherwise.
quota.producer.default long 9223372036854775807 1.. built dynamic unlisted
  Bytes a second that every client id may produce, unless a quota says otherwise.
quota.window.num int 11 1.. built
  Windows kept to measure clients' rates.
quota.window.size.seconds int 1 1.. built
  Length of a window that measures clients' rates.
request.timeout.ms int 30000 built
  How long a request to another broker may take.
socket.connection.setup.timeout.max.ms long 30000 n/a:dial
  Longest wait for a connection to another broker.
socket.connection.setup.timeout.ms long 10000 n/a:dial
  First wait for a connection to another broker.
socket.listen.backlog.size int 50 1.. n/a:backlog
  Connections that may wait to be accepted.
socket.receive.buffer.bytes int 102400 built
  Receive buffer of a connection (SO_RCVBUF); -1 leaves it to the system.
socket.request.max.bytes int 104857600 1.. built
  Largest request that is read.
socket.send.buffer.bytes int 102400 built
  Send buffer of a connection (SO_SNDBUF); -1 leaves it to the system.
telemetry.max.bytes int 1048576 1.. built
  Largest report of metrics a client may push.
"""  # noqa: E501 - a default is as long as Kafka has made it
