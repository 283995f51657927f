"""Numerics only: the uplink, the power, the probability problems and their certificates."""
