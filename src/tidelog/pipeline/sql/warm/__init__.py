"""A Spark session that outlives `tidelog sql`, so that the next one starts no JVM."""
