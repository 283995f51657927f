"""The decision of one round: powers, prices, probabilities and their certificate."""
