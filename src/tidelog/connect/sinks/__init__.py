"""Sinks that come with Tidelog."""
