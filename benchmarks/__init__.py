"""Measurements of the scheduler, beside general solvers; ``python -m benchmarks.run``."""
