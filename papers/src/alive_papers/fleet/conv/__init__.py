"""Convolutions in the fleet: maps of sixteen images at once."""
