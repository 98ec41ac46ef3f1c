"""Parquet files read by the tasks themselves: only rows that may win are handed to Spark."""
