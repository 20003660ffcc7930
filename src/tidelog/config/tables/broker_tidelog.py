"""Broker settings that only Tidelog has.  See `tidelog.config.setting`."""

OWN = """
tidelog.amqp.disk.free.bytes.min long 50000000 0.. built dynamic
  While a log directory has less room, AMQP connections that publish are blocked; 0: never.
tidelog.audit.enable string auto auto|true|false built
  Whether log-ins, denials and changes are recorded, in the log and in a topic; auto: if clients log in, or ACLs are checked.
tidelog.audit.queue.max int 10000 100..1000000 built dynamic
  Bound on audit events that wait to be written to the topic; further events are in the log only, and are counted.
tidelog.audit.topic string _audit built
  Topic of the audit events, created with the first event; if empty, events go to the log only.
tidelog.audit.topic.replication.factor int 3 1..32767 built
  Replicas of the audit topic, or as many as brokers are live when it is created.
tidelog.audit.topic.retention.bytes long 1073741824 -1.. built
  Size up to which the audit topic keeps its events, as it is created.
tidelog.audit.topic.retention.ms long 604800000 -1.. built
  How long the audit topic keeps its events, as it is created.
tidelog.broker.lease.ms int 2000 1000.. built
  A broker that has not renewed its lease in the metadata store for this long counts as dead, and other brokers take over.
tidelog.connection.requests.max int 16 1.. built
  Requests of one connection that are handled at the same time; further requests wait in the socket.
tidelog.connection.stalled.ms long 60000 1000.. built dynamic
  A client that takes nothing of an answer that waits for it for this long is closed.
tidelog.group.heartbeat.hold.ms int 2500 0..10000 built dynamic
  How long the heartbeat of a classic group member may wait for a rebalance to begin; 0: heartbeats never wait.
tidelog.http.advertise string null built
  Address of the HTTP port for other brokers, as host:port; if unset, it follows from tidelog.http.listen.
tidelog.http.authentication string auto auto|none|required built
  Whether HTTP requests need a login; auto: if authorizer.class.name is set. /health and the log-in page need none.
tidelog.http.body.bytes.max int 16777216 1024.. built dynamic
  Bound on the body of an HTTP request; a longer body is refused with status 413.
tidelog.http.connections.max int 256 8.. built
  Bound on open HTTP connections; further connections are answered with status 503.
tidelog.http.hosts list "" built
  Host names that HTTP requests may name, besides addresses, localhost and the broker's own names; * allows any name.
tidelog.http.trusted.proxies list "" built
  Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto say where requests come from.
tidelog.http.listen string 127.0.0.1:8090 built
  Address of the HTTP port, as host:port; port 0 picks a free port.
tidelog.http.metrics.token.file string null built
  File with tokens, one in each line, for scrapers: as a bearer token each may read /metrics, and nothing else.
tidelog.http.oidc.client.id string null built
  Client id of the console at the OpenID Connect provider.
tidelog.http.oidc.client.secret password null built
  Client secret of the console; without one, the console is a public client.
tidelog.http.oidc.groups.claim.name string null built
  Claim of the id token that holds groups, as for tidelog.oauthbearer.groups.claim.name.
tidelog.http.oidc.issuer string null built
  Issuer of the OpenID Connect provider that people log in to the console with, as https://login.example/realms/kafka.
tidelog.http.oidc.name string "" built
  What the console's button calls the provider, as in Log in with NAME; if empty, the host of the issuer.
tidelog.http.oidc.redirect.url string null built
  Where the provider sends people back to: the address of the console with /console/login/oidc/callback.
tidelog.http.oidc.scopes list openid built
  Scopes that the console asks for; openid must be among them.
tidelog.http.oidc.session.max.ms long 28800000 60000..43200000 built
  How long a log-in through the provider counts.
tidelog.http.oidc.user.claim.name string sub built
  Claim of the id token that is the user's name, as preferred_username. It must be one that people cannot choose themselves.
tidelog.http.ssl boolean false built
  Whether the HTTP port uses TLS, with the ssl settings of the broker or those that begin with listener.name.http.ssl.
tidelog.log.dirs.forget.missing boolean false built
  For the first start after a log directory was lost: log directories that are missing now count as lost for good.
tidelog.log.format string text text|json built
  Format of log lines: text for people, or JSON with the field names of the Elastic Common Schema, for Elastic and Loki.
tidelog.log.levels list info built
  Log level: debug, info, warning, error or critical; or for one part of the broker, as tidelog.storage=debug.
tidelog.login.connections.max int 1000 1.. built dynamic
  Bound on connections that have not logged in; beyond it, the address with the most of them gives up its oldest.
tidelog.login.queued.bytes long 16777216 1048576.. built
  Bytes of unfinished requests of all connections that have not logged in, above which these wait for each other.
tidelog.login.timeout.ms long 30000 100.. built dynamic
  A connection that has not logged in this long after it was accepted is closed.
tidelog.login.waiting.max int 200 1.. built dynamic
  Logins that may wait for a password to be checked; beyond it, the address with the most of them is sent away.
tidelog.machine string null built
  Machine that this broker shares with others: no two replicas of a partition are on the same one; `--processes` sets it.
tidelog.metadata string sqlite: built
  sqlite: (a file, for one broker), etcd://host:port,host:port/prefix, unix:/path (of `tidelog metadata serve`), or embedded://host,host,host.
tidelog.metadata.member string null built
  Of embedded://: which member of etcd this broker runs, as host:port, or none; by default the one whose host the broker has.
tidelog.metadata.password password null built
  Password of the etcd user.
tidelog.metadata.restored boolean false built
  For the first start after the metadata store was restored from a backup: all replicas report, and the best log leads.
tidelog.metadata.tls.ca string null built
  File with the authorities that etcd's certificate is checked against; if set, connections to etcd use TLS.
tidelog.metadata.tls.cert string null built
  File with the client certificate for etcd.
tidelog.metadata.tls.key string null built
  File with the key of the client certificate for etcd.
tidelog.metadata.user string null built
  Name of the etcd user, for an etcd with authentication.
tidelog.metrics.clients.max int 1000 1.. built
  Number of client ids with metrics of their own; further clients are added up under the name (others).
tidelog.metrics.series.max int 100000 100.. built dynamic
  Bound on the series of one metric; mq_metrics_left_out_series counts the series that are left out.
tidelog.oauthbearer.groups.claim.name string null built
  Claim of a token that holds the groups of the user, as groups or realm_access.roles; ACLs name them as Group:NAME.
tidelog.oauthbearer.jwks.reload.min.ms long 10000 100.. built
  Least time between two loads of the provider's keys for tokens whose key is unknown.
tidelog.oauthbearer.jwks.stale.max.ms long 86400000 0.. built
  How long the provider's keys still count after their refresh was due, while the provider cannot be reached.
tidelog.oauthbearer.required.scopes list "" built
  Scopes that a token must have.
tidelog.oauthbearer.truststore.location string null built
  PEM file with the authorities that the token provider's certificate is checked against; if unset, those of the system.
tidelog.open.files.max int 4096 64.. built
  Bound on open segment files; the least recently used files are closed.
tidelog.remote.cache.bytes long 1073741824 1048576.. built dynamic
  Disk space for what consumers read from remote storage, in the folder remote-cache of the first log directory.
tidelog.remote.read.ahead.bytes int 8388608 1048576..134217728 built dynamic
  Bytes that one request to remote storage reads ahead of a consumer.
tidelog.remote.storage.url string null built
  Object store for remote.log.storage.system.enable, as file:///folder, s3://bucket/prefix, gs://..., az://...
tidelog.processes string 1 built
  Brokers that `tidelog serve` runs as one unit, each a process; auto: as many as the machine has cores, less one in eight.
tidelog.processes.first int -1 -1.. built
  Id of the first of them; `tidelog serve` tells each process.
tidelog.request.bytes.max int 4194304 1048576.. built
  Largest request other than Produce, in bytes; socket.request.max.bytes bounds Produce requests.
tidelog.rest.consumer.instance.timeout.ms int 300000 100.. built dynamic
  A consumer instance of the REST proxy without a request for this long is closed.
tidelog.rest.consumer.request.bytes.max int 16777216 1024.. built dynamic
  Bound on the bytes of keys and values in one answer of a consumer instance; a single larger record is still sent.
tidelog.rest.consumer.request.timeout.ms int 1000 0..600000 built dynamic
  How long a consumer instance waits for records, unless it was created with its own timeout.
tidelog.rest.consumers.max int 100 0.. built dynamic
  Bound on the consumer instances of the REST proxy in this broker; further ones are refused with status 429.
tidelog.scrub.bytes.per.second int 10485760 0.. built dynamic
  Bytes per second that are read from each log directory in the background to find damaged data; 0 disables this.
tidelog.scrub.period.ms int 604800000 1000.. built dynamic
  How often a full round of background reading of a log directory begins.
tidelog.telemetry.otlp.ca string null built
  File with the authorities that the certificate of an https: endpoint is checked against; by default those of the system.
tidelog.telemetry.otlp.endpoint string null built
  URL of an OTLP receiver, as http://collector:4318/v1/metrics: gets the metrics that clients push, as OTLP in Protobuf.
tidelog.telemetry.otlp.headers password null built
  Headers of requests to the receiver, as NAME=VALUE,NAME=VALUE: for a key or a tenant.
tidelog.telemetry.otlp.queue.bytes.max long 16777216 4096..1073741824 built dynamic
  Bytes of client metrics that wait for the receiver; beyond it, the oldest are given up.
tidelog.telemetry.otlp.timeout.ms int 10000 100..300000 built dynamic
  How long one request to the receiver may take.
"""
