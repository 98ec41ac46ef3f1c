"""Continuous top-k over totals: the keys whose rows add up to the most in each window."""
