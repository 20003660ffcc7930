"""Topics, their partitions and replicas, and the settings of topics and brokers."""
