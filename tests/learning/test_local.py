import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedsched.errors import InputError
from fedsched.learning.dataset import Dataset, load_dataset
from fedsched.learning.local import LocalTrainer, augment, minibatches
from fedsched.learning.models import build_model, load_flat
from fedsched.learning.partition import Partition, index_by_class
from fedsched.randomness import stream

DIGITS = load_dataset("digits")


def trainer(*, dataset=DIGITS, model="small-cnn", **changes):
    partition = Partition(
        index=index_by_class(dataset.train_labels, dataset.classes),
        alpha=1.0,
        size=30,
        devices=8,
        seed=5,
    )
    network = build_model(model, dataset, seed=5) if isinstance(model, str) else model
    given = {"steps": 6, "batch_size": 8, "learning_rate": 0.1, "seed": 5}
    return LocalTrainer(dataset=dataset, partition=partition, model=network, **(given | changes))


def test_minibatches_walk_through_the_samples_and_shuffle_again_when_used_up():
    samples = np.arange(100, 110)
    random = np.random.default_rng(1)
    walk = np.concatenate(list(minibatches(samples, steps=5, batch_size=4, random=random)))
    assert sorted(walk[:10].tolist()) == samples.tolist()
    assert sorted(walk[10:].tolist()) == samples.tolist()
    assert walk[:10].tolist() != walk[10:].tolist()


def test_a_batch_may_be_larger_than_a_devices_data():
    batches = list(
        minibatches(np.arange(3), steps=2, batch_size=5, random=np.random.default_rng(1))
    )
    assert [len(batch) for batch in batches] == [5, 5]


def test_augmentation_cuts_every_image_out_of_its_frame_and_flips_some():
    random = np.random.default_rng(2)
    images = random.integers(1, 256, (400, 3, 6, 5), dtype=np.uint8)
    original = images.copy()
    result = augment(images, flip=True, crop_padding=2, random=random)
    assert (images == original).all() and result.shape == images.shape
    framed = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    kinds = set()
    for image, candidate in zip(framed, result, strict=True):
        found = {
            (row, column, flipped)
            for row in range(5)
            for column in range(5)
            for flipped in (False, True)
            if (
                image[:, row : row + 6, column : column + 5][..., :: -1 if flipped else 1]
                == candidate
            ).all()
        }
        assert found
        kinds |= found
    assert len(kinds) == 50  # every place, both ways round


def test_without_augmentation_images_stay_as_they_are():
    images = np.arange(2 * 3 * 4 * 4, dtype=np.uint8).reshape(2, 3, 4, 4)
    same = augment(images, flip=False, crop_padding=0, random=np.random.default_rng(1))
    assert (same == images).all()
    before = images.copy()
    flipped = augment(images, flip=True, crop_padding=0, random=np.random.default_rng(3))
    assert (images == before).all() and (flipped != images).any()


@pytest.mark.slow
def test_an_update_is_what_plain_gradient_descent_on_the_same_batches_gives():
    mine = trainer()
    x = mine.initial_parameters
    update = mine.train(x, 3, 7)

    model = build_model("small-cnn", DIGITS, seed=99)
    load_flat(model, x)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = mine._partition.indices(3)
    losses, squares = [], []
    for batch in minibatches(samples, steps=6, batch_size=8, random=stream(5, "training", 7, 3)):
        images = (DIGITS.train_images[batch] - DIGITS.mean) / DIGITS.deviation
        logits = model(torch.tensor(images, dtype=torch.float32))
        loss = functional.cross_entropy(logits, torch.tensor(DIGITS.train_labels[batch]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        each = functional.cross_entropy(
            logits, torch.tensor(DIGITS.train_labels[batch]), reduction="none"
        )
        squares.append((each**2).mean().item())
    y = torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()
    assert update.delta.dtype == np.float32 and update.steps == 6
    assert update.delta == pytest.approx(y - x, rel=1e-3, abs=1e-6)
    assert update.loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert update.square_loss == pytest.approx(np.mean(squares), rel=1e-5)


def noisy():
    """A model with all that could break reproducibility: dropout, running statistics, counters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 16),
            nn.BatchNorm1d(16, momentum=None),
            nn.Dropout(0.5),
            nn.Linear(16, 10),
        )


@pytest.mark.parametrize("model", ["small-cnn", "noisy"])
def test_an_update_is_a_function_of_parameters_device_round_and_seed_alone(model):
    first, other = (trainer(model=noisy() if model == "noisy" else model) for _ in range(2))
    x = first.initial_parameters
    before = x.copy()
    update = first.train(x, 2, 4)
    other.train(x + 1, 5, 1)
    other.evaluate(x)
    torch.rand(5)
    again = other.train(x, 2, 4)
    assert update.delta.tobytes() == again.delta.tobytes()
    assert update.loss == again.loss
    assert x.tobytes() == before.tobytes()
    assert update.delta.tobytes() != first.train(x, 2, 5).delta.tobytes()
    assert update.delta.tobytes() != first.train(x, 3, 4).delta.tobytes()


def test_running_statistics_are_part_of_the_update():
    mine = trainer(model=noisy())
    assert mine.dimension == 64 * 16 + 16 + 2 * 16 + 16 * 10 + 10 + 2 * 16
    assert (mine.train(mine.initial_parameters, 0, 0).delta[-32:] != 0).all()


class Watching(nn.Sequential):
    """Notes how many threads torch has whenever it is asked for logits."""

    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.threads = set()

    def forward(self, images):
        self.threads.add(torch.get_num_threads())
        return super().forward(images)


def test_training_uses_one_thread_and_leaves_torchs_settings_and_random_state_alone():
    model = Watching()
    mine = trainer(model=model)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        mine.train(mine.initial_parameters, 0, 0)
        mine.evaluate(mine.initial_parameters)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert model.threads == {1}
    assert torch.equal(torch.get_rng_state(), state)


def test_evaluation_counts_the_whole_test_set():
    mine = trainer()
    x = mine.initial_parameters
    result = mine.evaluate(x)
    model = build_model("small-cnn", DIGITS, seed=5)
    images = (DIGITS.test_images - DIGITS.mean) / DIGITS.deviation
    with torch.no_grad():
        logits = model(torch.tensor(images, dtype=torch.float32))
    labels = torch.tensor(DIGITS.test_labels)
    assert result.accuracy == int((logits.argmax(1) == labels).sum()) / 360
    assert result.loss == pytest.approx(functional.cross_entropy(logits, labels).item(), rel=1e-5)
    assert len(mine.chunks()) == 2  # 360 images: the last chunk is not full


def test_a_cheap_report_is_of_a_fresh_minibatch_of_the_devices_own_data():
    mine = trainer(model="softmax")
    x = mine.initial_parameters
    cheap = [mine.loss(x, 2, t, whole=False) for t in range(300)]
    assert len(set(cheap)) == len(cheap)
    assert cheap[7] == mine.loss(x, 2, 7, whole=False) != mine.loss(x, 3, 7, whole=False)
    whole = mine.loss(x, 2, 0, whole=True)
    assert whole == mine.loss(x, 2, 1, whole=True)
    # Minibatches are drawn from all samples alike, so their losses average to that of all.
    error = np.std(cheap, ddof=1) / len(cheap) ** 0.5
    assert np.mean(cheap) == pytest.approx(whole, abs=4 * error)


def test_training_learns():
    mine = trainer(steps=150, batch_size=30, learning_rate=0.2, model="softmax")
    x = mine.initial_parameters
    for number in range(8):
        x = x + mine.train(x, number, number).delta / 2
    assert mine.evaluate(x).accuracy > 2 * mine.evaluate(mine.initial_parameters).accuracy


def test_images_of_real_numbers_are_trained_on_too():
    floats = Dataset(
        name="floats",
        train_images=DIGITS.train_images.astype(np.float32),
        train_labels=DIGITS.train_labels,
        test_images=DIGITS.test_images.astype(np.float32),
        test_labels=DIGITS.test_labels,
        classes=10,
        mean=DIGITS.mean,
        deviation=DIGITS.deviation,
    )
    by_bytes, by_floats = trainer(), trainer(dataset=floats)
    x = by_bytes.initial_parameters
    assert by_bytes.train(x, 0, 0).delta.tobytes() == by_floats.train(x, 0, 0).delta.tobytes()
    assert by_bytes.evaluate(x) == by_floats.evaluate(x)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps must be >= 1, got 0"),
        ({"batch_size": 0}, "batch_size must be >= 1, got 0"),
        ({"batch_size": 2**63 - 1}, r"batch_size must be at most 16,777,216 for images of shape"),
        ({"steps": 2**63 - 1}, r"steps x batch_size must be at most 100,000,000, got 9,223,"),
        ({"learning_rate": 0.0}, r"learning_rate must be positive and at most .*, got 0.0"),
        ({"learning_rate": np.nan}, r"learning_rate must be positive and at most .*, got nan"),
        (
            {"learning_rate": 1e100},
            r"learning_rate must be positive and at most 3.4e\+38, .* 1e\+100",
        ),
        ({"device": "tpu"}, "device must be 'cpu' or 'cuda', got 'tpu'"),
    ],
)
def test_a_bad_setting_is_refused_with_a_sentence(changes, message):
    with pytest.raises(InputError, match=message):
        trainer(**changes)


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is here, so asking for it is right")
def test_asking_for_cuda_where_there_is_none_is_refused():
    with pytest.raises(InputError, match="'cuda' is not available to torch here; use 'cpu'"):
        trainer(device="cuda")
