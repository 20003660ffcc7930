"""Why Tidelog does not act on settings of Kafka: the words after `n/a:` in the tables of settings.

Such a setting is accepted in any value that Kafka accepts, and a start says in one line why it has no effect."""

from __future__ import annotations

NOT_APPLICABLE = {
    "kraft": "Metadata are in SQLite or etcd: there is no KRaft quorum and no metadata log.",
    "lease": "A broker lives as long as its lease in etcd: tidelog.broker.lease.ms.",
    "threads": "One event loop does this work: there is no pool of threads to size.",
    "in-flight": "No request queues for a thread; tidelog.connection.requests.max bounds those of a connection.",
    "purgatory": "A request that is done leaves what it waited for at once: there is nothing to sweep.",
    "reporters": "Metrics are served at /metrics for Prometheus: there are no reporter classes.",
    "samples": "Metrics are counters and histograms since the start: there are no samples or recording levels.",
    "plug-in": "Tidelog loads no Java classes.",
    "policies": "Tidelog loads no Java classes: ACLs, quotas and limits of tenants decide what is allowed.",
    "tls": "Python's TLS library (OpenSSL) does this; Java's providers and engines are not there.",
    "kinit": "Tidelog does not start kinit.",
    "keytab-tickets": "MIT Kerberos' library gets new tickets from the keytab when half of their life is over: there is no "
    "thread that logs in.",
    "validator": "Tidelog loads no Java classes: every token is checked with the keys of its provider.",
    "keys-map": "The map of keys grows with its load by itself, within log.cleaner.dedupe.buffer.size.",
    "cleaner-buffer": "Compaction reads and writes through the page cache, in pieces of fixed size.",
    "load-buffer": "Coordinators read their logs in pieces of fixed size when they load.",
    "append-buffer": "Coordinators write batches as they come, without a buffer that is kept for reuse.",
    "linger": "Coordinators append at once what has come in one turn of the event loop.",
    "manifests": "Manifests in the object store say what is there: no topic has the metadata of remote segments.",
    "tier-window": "Copies to remote storage and reads from there are spaced at the bounded rate: there are no windows.",
    "throttle-window": "Copying has an account that fills at the throttled rate, up to one second of it: no windows.",
    "dial": "A connection to another broker is given up after 1 s, so that a broker that is away is noticed soon.",
    "fetcher": "One connection to each leader carries the fetches of all partitions, one behind the other.",
    "backlog": "Up to 1,024 connections wait to be accepted, or as many as the system allows (net.core.somaxconn).",
    "directory": "A log directory that fails is reported at once, and again until the report is taken.",
    "controller-login": "Brokers log in to etcd with tidelog.metadata.user, not to controllers.",
    "startup-listeners": "Every listener opens when the broker is ready.",
    "recovery": "One thread recovers each log directory, beside the others.",
    "start-wait": "A broker tries to register until it is stopped.",
}
