"""The papers' theorems as functions one can call and check."""
