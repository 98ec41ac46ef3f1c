"""Beside a checkpoint: which query it belongs to."""
