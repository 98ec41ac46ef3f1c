"""The life of a batch, whatever the family: columns in, rows that wait, steps, ranked windows."""
