"""Channel models and recorded traces, and the clock they drive."""
