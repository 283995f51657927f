"""Softmax regression on handwritten digits, federated."""
