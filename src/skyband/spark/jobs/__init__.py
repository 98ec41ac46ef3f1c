"""Job files: a source, a query and a sink, read, run, watched and resumed."""
