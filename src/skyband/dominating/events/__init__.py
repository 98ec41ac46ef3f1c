"""Event-based processing, which EVA, ADA, AHBA and AMSA share: examine points when they may win."""
