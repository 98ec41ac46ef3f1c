"""Skyband on a cluster: what executors need is there, or is brought, or is said to be missing.

``executors`` asks them before a job starts, by the functions of ``probe``; ``package`` sends
Skyband where it is missing or another one, and ``unpacking`` stands in its place there.
"""
