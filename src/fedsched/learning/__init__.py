"""Data, models, local training and aggregation."""
