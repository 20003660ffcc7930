"""What every client shares: addresses, connections, metadata of the cluster, leaders and coordinators."""
