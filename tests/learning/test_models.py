import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedsched.errors import InputError, UnknownNameError
from fedsched.learning.dataset import Dataset, load_dataset
from fedsched.learning.models import build_model, flatten, load_flat


def pictures(side=32, channels=3, classes=10):
    """A tiny data set with CIFAR-10's shape."""
    images = np.zeros((classes, channels, side, side), np.uint8)
    labels = np.arange(classes)
    return Dataset(
        name="pictures",
        train_images=images,
        train_labels=labels,
        test_images=images,
        test_labels=labels,
        classes=classes,
        mean=np.zeros(channels),
        deviation=np.ones(channels),
    )


@pytest.mark.parametrize(
    ("name", "dataset", "count"),
    [
        ("paper-cnn", pictures(), 555_178),
        ("paper-cnn-lrn", pictures(), 555_178),
        ("small-cnn", load_dataset("digits"), 6_090),
        ("softmax", load_dataset("digits"), 650),
    ],
)
def test_models_have_the_parameters_they_should(name, dataset, count):
    assert flatten(build_model(name, dataset, seed=1)).shape == (count,)


def test_the_first_values_are_a_function_of_the_seed_alone():
    before = torch.get_rng_state()
    first = flatten(build_model("small-cnn", load_dataset("digits"), seed=1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    again = flatten(build_model("small-cnn", load_dataset("digits"), seed=1))
    assert first.tobytes() == again.tobytes()
    other = flatten(build_model("small-cnn", load_dataset("digits"), seed=2))
    assert first.tobytes() != other.tobytes()


@pytest.mark.slow
def test_the_papers_cnn_is_the_textbook_stack_to_the_gradient():
    model = build_model("paper-cnn", pictures(), seed=1)
    textbook = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2048, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    load_flat(textbook, flatten(model))
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(4, 3, 32, 32, generator=generator)
    labels = torch.tensor([0, 3, 9, 9])
    gradients = []
    for candidate in (model, textbook):
        functional.cross_entropy(candidate(images), labels).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in candidate.parameters()]))
    torch.testing.assert_close(model(images), textbook(images), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)


def test_response_normalisation_is_the_ancestors_definition():
    model = build_model("paper-cnn-lrn", pictures(), seed=1)
    x = torch.randn(2, 32, 4, 4, generator=torch.Generator().manual_seed(1)) * 30
    squares = x.double().numpy() ** 2
    expected = np.empty_like(squares)
    for channel in range(32):
        around = squares[:, max(channel - 4, 0) : channel + 5].sum(axis=1)
        expected[:, channel] = x[:, channel].numpy() / (1.0 + 0.001 / 9.0 * around) ** 0.75
    assert model.normalise(x).numpy() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    plain = build_model("paper-cnn", pictures(), seed=1)
    images = torch.ones(1, 3, 32, 32)
    assert not torch.equal(plain(images), model(images))


def test_the_vector_goes_in_and_out_and_holds_float_buffers():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.BatchNorm1d(3))
    size = 4 * 3 + 3 + 2 * 3 + 2 * 3  # weights and biases, scale and shift, mean and variance
    vector = np.arange(size, dtype=np.float32)
    load_flat(model, vector)
    assert flatten(model).tobytes() == vector.tobytes()
    assert model[2].running_var.tolist() == [24.0, 25.0, 26.0]
    with pytest.raises(InputError, match=r"vector must have shape \(27,\), got \(5,\)"):
        load_flat(model, np.zeros(5, np.float32))


def test_an_unknown_model_gets_the_nearest_known_one():
    with pytest.raises(UnknownNameError, match="did you mean 'paper-cnn'"):
        build_model("papercnn", pictures(), seed=1)


@pytest.mark.parametrize("name", ["paper-cnn", "small-cnn"])
def test_images_too_small_for_the_cnn_are_refused(name):
    with pytest.raises(InputError, match="4x4 or more, got 3x3"):
        build_model(name, pictures(side=3), seed=1)


OWN = """
import torch
from torch import nn

class Good(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))

class Wide(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 11))

class Large(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(65, 10))

class Empty(nn.Flatten):
    pass

class Double(Good):
    def __init__(self):
        super().__init__()
        self.double()

def nothing():
    return None
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_model_module.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own")
def test_a_users_own_model_is_found_by_its_import_path():
    model = build_model("own_model_module:Good", load_dataset("digits"), seed=1)
    assert flatten(model).shape == (650,)
    assert model.training


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Wide", r"logits of shape \(n, 10\), got \(2, 11\)"),
        ("Large", r"cannot take images of shape \(1, 8, 8\)"),
        ("Empty", "has no parameters to train"),
        ("Double", "must be float32"),
        ("nothing", "must make a torch.nn.Module, got NoneType"),
    ],
)
def test_a_users_own_model_that_does_not_fit_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        build_model(f"own_model_module:{name}", load_dataset("digits"), seed=1)
