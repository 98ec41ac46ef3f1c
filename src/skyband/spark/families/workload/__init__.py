"""Workloads on Spark: panes of all queries, one processor per key, restarts with other queries."""
