"""Simple queries without Spark: look-ups, tails, counts.  Every other query goes to Spark, which has the last word."""
