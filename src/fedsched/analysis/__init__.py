"""From logs to answers: curves, groups of runs, times to a target."""
