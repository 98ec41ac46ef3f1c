"""Parquet files read by the tasks themselves: only rows that may win are handed to Spark."""


class NotScannedError(Exception):
    """Says why rows, or an expression over them, are Spark's to read."""
