"""Running pipelines: a folder of state for each application, its progress, and the process that drives it."""
