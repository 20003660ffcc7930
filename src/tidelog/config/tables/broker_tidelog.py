"""Broker settings that only Tidelog has.  See `tidelog.config.setting`."""

OWN = """
tidelog.broker.lease.ms int 2000 1000.. built
  A broker that the metadata store has not heard of for this long is taken for dead, and others lead in its place.
tidelog.connection.requests.max int 16 1.. built
  Requests of one connection that are worked on at the same time; more wait in the socket.
tidelog.group.heartbeat.hold.ms int 2500 0..10000 built dynamic
  How long the heartbeat of a classic member may wait for a rebalance to begin; 0: no heartbeat of any group waits.
tidelog.http.advertise string null built
  What other brokers are told of the HTTP port, as host:port; unset, it follows from tidelog.http.listen.
tidelog.http.body.bytes.max int 16777216 1024.. built dynamic
  Bound on the body of an HTTP request; longer ones are refused with status 413.
tidelog.http.connections.max int 256 8.. built
  HTTP connections at the same time; more are answered with status 503.
tidelog.http.hosts list "" built
  Names under which the HTTP port may be asked, besides addresses, localhost and the broker's own names; * allows any.
tidelog.http.listen string 127.0.0.1:8090 built
  Address of the HTTP port, as host:port; port 0 picks a free one.
tidelog.log.dirs.forget.missing boolean false built
  For the first start after a data directory was lost: those it had and that are not there now are gone for good.
tidelog.log.format string text text|json built
  How log lines look: text for people, or JSON with the field names of the Elastic Common Schema, for Elastic and Loki.
tidelog.log.levels list info built
  How much is logged: debug, info, warning, error or critical; or for one part of the broker, as tidelog.storage=debug.
tidelog.metadata string sqlite: built
  Where the cluster's metadata lives: sqlite: in the first log directory, for a cluster of one; etcd://host:port,host:port/prefix.
tidelog.metadata.password password null built
  Password of the etcd user.
tidelog.metadata.restored boolean false built
  For the first start after the store was restored from a backup: all replicas report their logs, and the best one leads.
tidelog.metadata.tls.ca string null built
  File with the certificates that etcd's is checked against; connections to etcd are encrypted when it is set.
tidelog.metadata.tls.cert string null built
  File with the certificate to show to etcd.
tidelog.metadata.tls.key string null built
  File with the key of that certificate.
tidelog.metadata.user string null built
  Name of the etcd user, for an etcd with authentication.
tidelog.metrics.clients.max int 1000 1.. built
  Client ids that metrics tell apart; what others do is added up under the name (others).
tidelog.metrics.series.max int 100000 100.. built dynamic
  Bound on the series of one metric; mq_metrics_left_out_series says how many are not shown.
tidelog.open.files.max int 4096 64.. built
  Bound on the files of segments that are held open; the least recently used are closed.
tidelog.request.bytes.max int 4194304 1048576.. built
  Bound on requests other than Produce, which may be as long as socket.request.max.bytes allows.
tidelog.rest.consumer.instance.timeout.ms int 300000 100.. built dynamic
  A consumer instance of the REST proxy that nobody has asked for this long is closed.
tidelog.rest.consumer.request.bytes.max int 16777216 1024.. built dynamic
  Bound on the keys and values in one answer of a consumer instance; one record goes out whatever its length.
tidelog.rest.consumer.request.timeout.ms int 1000 0..600000 built dynamic
  How long a consumer instance waits for records, unless it was made with a time of its own.
tidelog.rest.consumers.max int 100 0.. built dynamic
  Consumer instances of the REST proxy in this broker; more are refused with status 429.
tidelog.scrub.bytes.per.second int 10485760 0.. built dynamic
  Pace at which each log directory is read in the background to find bytes that rotted; 0: it is not read.
tidelog.scrub.period.ms int 604800000 1000.. built dynamic
  How often all of a log directory is read in the background: a round begins once in this time.
"""
