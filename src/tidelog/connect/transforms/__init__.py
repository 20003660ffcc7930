"""Single message transforms, by Kafka Connect's and Debezium's names: they change a record between its connector and its
topic."""
