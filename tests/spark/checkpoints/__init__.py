"""Checkpoints that earlier releases have left, and how they were made."""
