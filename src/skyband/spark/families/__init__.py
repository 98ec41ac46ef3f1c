"""The families of queries that Spark answers."""
