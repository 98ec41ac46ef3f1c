"""Top-k dominating on Spark: shards that count, one sum; or one engine for each key."""
