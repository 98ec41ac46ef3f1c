"""Skyband on Spark beside Spark's own aggregations, on the same stream with the same trigger."""
