"""The client: producer, consumer and admin over one view of the cluster.  `tidelog.aio` has the public
names."""

import logging

# A library says nothing on its own: applications that want its messages configure logging.
logging.getLogger("tidelog.client").addHandler(logging.NullHandler())
