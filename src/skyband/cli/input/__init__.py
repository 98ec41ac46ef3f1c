"""Reading a file: its columns and rows, what a query evaluates over them, what Spark is given."""
