"""The admin client: topics, settings, partitions, groups, transactions and log directories."""
