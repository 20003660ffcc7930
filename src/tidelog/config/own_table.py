"""Broker settings that only Tidelog has.  See `tidelog.config.table`."""

OWN = """
tidelog.broker.lease.ms int 2000 1000.. built
  A broker that the metadata store has not heard of for this long is taken for dead, and others lead in its place.
tidelog.connection.requests.max int 16 1.. built
  Requests of one connection that are worked on at the same time; more wait in the socket.
tidelog.group.heartbeat.hold.ms int 2500 0..10000 built dynamic
  How long a heartbeat may wait for a rebalance to begin, so that members learn of it at once; 0 answers at once.
tidelog.http.listen string 127.0.0.1:8090 built
  Address of the HTTP port, as host:port; port 0 picks a free one.
tidelog.open.files.max int 4096 64.. built
  Bound on the files of segments that are held open; the least recently used are closed.
tidelog.request.bytes.max int 4194304 1048576.. built
  Bound on requests other than Produce, which may be as long as socket.request.max.bytes allows.
"""
