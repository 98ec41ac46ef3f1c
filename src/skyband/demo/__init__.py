"""The demonstration: a lively stock market, ranked and shown."""
