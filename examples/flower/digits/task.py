"""The learning itself: data, model, local steps. It knows nothing of any federation."""

import numpy as np
from sklearn.datasets import load_digits


def load(part, parts):
    """The training images and labels of one node: every ``parts``-th sample."""
    images, labels = load_digits(return_X_y=True)
    mine = np.arange(297, len(labels))[part::parts]
    return images[mine] / 16.0, labels[mine]


def load_test():
    images, labels = load_digits(return_X_y=True)
    return images[:297] / 16.0, labels[:297]


def new_model():
    return {"weight": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)}


def probabilities(model, images):
    logits = images @ model["weight"].astype(np.float64) + model["bias"]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def loss_and_accuracy(model, images, labels):
    given = probabilities(model, images)
    loss = -np.log(given[np.arange(len(labels)), labels] + 1e-12).mean()
    return float(loss), float((given.argmax(axis=1) == labels).mean())


def train(model, images, labels, *, steps, learning_rate, seed):
    """Minibatch steps; returns the new model and the mean loss on the way."""
    random = np.random.default_rng(seed)
    model = {name: value.astype(np.float64) for name, value in model.items()}
    losses = []
    for _ in range(steps):
        batch = random.choice(len(labels), 32)
        losses.append(loss_and_accuracy(model, images[batch], labels[batch])[0])
        error = probabilities(model, images[batch])
        error[np.arange(32), labels[batch]] -= 1.0
        model["weight"] -= learning_rate * images[batch].T @ error / 32
        model["bias"] -= learning_rate * error.mean(axis=0)
    return {name: value.astype(np.float32) for name, value in model.items()}, np.mean(losses)
