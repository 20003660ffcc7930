"""Native code of the client: intake and delivery of records, rows and columns."""
