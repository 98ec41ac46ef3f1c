"""Totals on Spark: the keys whose rows add up to the most, pane by pane, shard by shard."""
