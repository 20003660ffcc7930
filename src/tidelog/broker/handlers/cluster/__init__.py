"""The cluster and its brokers: members, quorum, features, log directories, telemetry."""
