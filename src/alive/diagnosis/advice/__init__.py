"""Cures for what a census finds, in the order of what was measured."""
