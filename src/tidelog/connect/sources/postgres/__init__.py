"""PostgreSQL's changes: logical replication with the plugin pgoutput."""
