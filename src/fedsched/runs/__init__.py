"""Runs: scenarios, the folders they fill, and the engines that run them."""
