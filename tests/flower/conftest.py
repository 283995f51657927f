"""What pytest is not to import: it belongs to processes of its own."""

collect_ignore = ["simulated.py", "slow_app"]
