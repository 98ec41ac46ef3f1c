"""Queries whose rows are spread over shards by object: each shard runs the local engine."""
