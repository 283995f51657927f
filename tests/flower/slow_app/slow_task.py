"""Three dense layers on handwritten digits: data, model and training.

All in NumPy, so that the process which Flower starts for every message is up soon.
"""

from itertools import pairwise

import numpy as np

WIDTH, RATE, BATCH, TESTS = 960, 0.02, 16, 360


def load(path):
    with np.load(path) as saved:
        return saved["images"], saved["labels"]


def part_of(path, part, parts):
    images, labels = load(path)
    return images[TESTS:][part::parts], labels[TESTS:][part::parts]


def new_model(seed):
    random, sizes = np.random.default_rng(seed), (64, WIDTH, WIDTH, 10)
    model = {}
    for n, (wide, narrow) in enumerate(pairwise(sizes)):
        model[f"{n}.weight"] = random.normal(0.0, (2.0 / wide) ** 0.5, (wide, narrow))
        model[f"{n}.bias"] = np.zeros(narrow)
    return {name: each.astype(np.float32) for name, each in model.items()}


def forward(model, images):
    """What every layer gets, and the probabilities of the classes."""
    inputs = [images]
    for n in range(3):
        given = inputs[-1] @ model[f"{n}.weight"] + model[f"{n}.bias"]
        inputs.append(np.maximum(given, 0.0) if n < 2 else given)
    powers = np.exp(inputs[-1] - inputs[-1].max(axis=1, keepdims=True))
    return inputs[:-1], powers / powers.sum(axis=1, keepdims=True)


def accuracy(model, path):
    images, labels = load(path)
    _, chance = forward(model, images[:TESTS])
    return float((chance.argmax(axis=1) == labels[:TESTS]).mean())


def train(model, images, labels, seed):
    """One epoch of SGD."""
    random = np.random.default_rng(seed)
    model = {name: each.copy() for name, each in model.items()}
    order = random.permutation(len(labels))
    for batch in np.array_split(order, -(-len(order) // BATCH)):
        inputs, chance = forward(model, images[batch])
        error = (chance - np.eye(10, dtype=np.float32)[labels[batch]]) / len(batch)
        slope = {}
        for n in (2, 1, 0):
            slope[f"{n}.weight"], slope[f"{n}.bias"] = inputs[n].T @ error, error.sum(axis=0)
            error = (error @ model[f"{n}.weight"].T) * (inputs[n] > 0.0)
        for name, each in slope.items():
            model[name] -= np.float32(RATE) * each
    return model
