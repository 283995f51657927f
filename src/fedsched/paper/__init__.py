"""Every figure and table of the paper: what to run for it, how to draw it, what it should show."""
