"""Quantities of a queue: Little's law, M/M/c, and the universal scalability law, fitted to measured figures.

Pure: numbers in, numbers out, and plots as text.  `tidelog model` reads, measures and prints."""
