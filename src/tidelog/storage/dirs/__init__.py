"""Log directories (`log.dirs`): whose they are, the logs in them, moves between them, stray logs."""
