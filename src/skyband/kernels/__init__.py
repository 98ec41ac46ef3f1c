"""Compiled loops over flat arrays. They know neither queries nor Spark."""
