"""`consumer.process(fn)`: many records at a time, in order by key, with a dead letter topic."""
