"""Printing: leaderboards as tables, CSV and JSON, plans, progress, and a stream that is watched."""
