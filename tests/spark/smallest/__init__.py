"""A throw-away sixth family, as CONTRIBUTING describes one: the rows with the smallest values."""
