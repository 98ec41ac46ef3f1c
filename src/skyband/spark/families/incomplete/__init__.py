"""Top-k over incomplete streams on Spark."""
