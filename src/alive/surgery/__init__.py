"""Change a finished model exactly: to Farkas layers, without its skips, folded to a plain network."""
