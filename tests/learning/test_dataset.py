import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedsched.errors import InputError, MissingExtraError, UnknownNameError
from fedsched.learning.dataset import Dataset, channel_statistics, load_dataset
from fedsched.randomness import stream


def fields(**changes):
    images = np.arange(6 * 3 * 4 * 4, dtype=np.uint8).reshape(6, 3, 4, 4)
    labels = np.array([0, 1, 2, 0, 1, 2])
    return {
        "name": "toy",
        "train_images": images,
        "train_labels": labels,
        "test_images": images[:2],
        "test_labels": labels[:2],
        "classes": 3,
        "mean": np.zeros(3),
        "deviation": np.ones(3),
    } | changes


def arrays(**changes):
    keep = ("train_images", "train_labels", "test_images", "test_labels")
    return {name: value for name, value in fields(**changes).items() if name in keep}


def test_the_digits_are_split_once_for_all():
    digits = load_dataset("digits")
    assert digits.train_images.shape == (1437, 1, 8, 8)
    assert digits.test_images.shape == (360, 1, 8, 8)
    assert digits.train_images.dtype == np.uint8 and digits.train_images.max() == 16
    assert np.bincount(digits.test_labels, minlength=10).min() >= 20
    assert not digits.flip and digits.crop_padding == 0
    again = load_dataset("digits")
    assert digits.train_images.tobytes() == again.train_images.tobytes()

    train = {image.tobytes() for image in digits.train_images}
    assert not any(image.tobytes() in train for image in digits.test_images)


def test_the_digits_are_those_of_scikit_learn_bit_by_bit():
    theirs, ours = load_digits(), load_dataset("digits")
    order = stream(0, "digits-split").permutation(1797)
    images = np.concatenate([ours.train_images, ours.test_images])
    labels = np.concatenate([ours.train_labels, ours.test_labels])
    assert images.tobytes() == theirs.images.astype(np.uint8)[order].tobytes()
    assert labels.tolist() == theirs.target[order].tolist()


def test_the_digits_are_read_without_importing_scikit_learn():
    code = (
        "import sys; from fedsched.learning.dataset import load_dataset; load_dataset('digits');"
        "sys.exit('sklearn' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_digits_without_scikit_learn_are_a_sentence(monkeypatch, tmp_path):
    (tmp_path / "sklearn.py").touch()  # a lone module of that name has no digits either
    for path in ([], [str(tmp_path)]):
        monkeypatch.setattr(sys, "path", path)
        monkeypatch.delitem(sys.modules, "sklearn", raising=False)
        with pytest.raises(MissingExtraError, match=r"'digits' needs .*'sklearn'.*fedsched\[torch"):
            load_dataset("digits")


def test_normalised_digits_have_mean_zero_and_deviation_one():
    digits = load_dataset("digits")
    normalised = (digits.train_images - digits.mean) / digits.deviation
    assert normalised.mean() == pytest.approx(0, abs=1e-12)
    assert normalised.std() == pytest.approx(1)


def test_a_data_set_cannot_be_written_to():
    toy = Dataset(**fields())
    with pytest.raises(ValueError, match="read-only"):
        toy.train_images[0] = 0


def test_statistics_are_by_channel_and_a_constant_channel_has_deviation_one():
    images = np.zeros((5, 2, 3, 3), np.float32)
    images[:, 1, 0] = 3.0
    mean, deviation = channel_statistics(images)
    assert mean.tolist() == [0.0, 1.0]
    assert deviation == pytest.approx([1.0, 2**0.5])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": 1}, "classes of data set 'toy' must be >= 2, got 1"),
        ({"classes": 2}, r"train_labels .* must lie in 0 .. 1, got 0 .. 2"),
        ({"train_images": np.zeros((6, 3, 4, 4))}, "must be uint8 or float32, got float64"),
        ({"train_images": np.zeros((6, 3, 16), np.uint8)}, r"shape \(n, channels, height, width\)"),
        ({"test_images": np.zeros((0, 3, 4, 4), np.uint8)}, "test_images .* non-empty"),
        ({"test_images": np.zeros((2, 3, 5, 4), np.uint8)}, "must agree"),
        ({"train_labels": np.zeros(6)}, "train_labels .* must be integers, got float64"),
        ({"train_labels": np.zeros(5, int)}, r"one label for each of the 6 images.*\(5,\)"),
        ({"train_images": np.full((6, 3, 4, 4), np.nan, np.float32)}, "not finite"),
        ({"mean": np.zeros(1)}, "mean .* one finite number for each of its 3 channels"),
        ({"deviation": np.zeros(3)}, "deviation .* must be positive"),
        ({"crop_padding": -1}, "crop_padding .* must be >= 0, got -1"),
    ],
)
def test_a_bad_data_set_is_refused_with_a_sentence(changes, message):
    with pytest.raises(InputError, match=message):
        Dataset(**fields(**changes))


def test_an_npz_file_is_a_data_set(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays())
    mine = load_dataset(str(path))
    assert mine.name == "mine" and mine.classes == 3
    assert mine.train_images.tobytes() == fields()["train_images"].tobytes()
    assert mine.mean == pytest.approx(fields()["train_images"].mean(axis=(0, 2, 3)))


def test_an_npz_file_may_hold_grey_images_in_double_precision(tmp_path):
    path = tmp_path / "grey.npz"
    np.savez(path, **arrays(train_images=np.ones((6, 5, 5)), test_images=np.ones((2, 5, 5))))
    grey = load_dataset(str(path))
    assert grey.image_shape == (1, 5, 5)
    assert grey.train_images.dtype == np.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels": np.zeros(6)}, "train_labels of .* must be integers"),
        ({"train_labels": np.zeros(0, int)}, "train_labels of .* must be integers"),
        ({"train_images": np.zeros((6, 48), np.uint8)}, r"shape \(n, channels, height, width\)"),
        ({"train_images": np.zeros((6, 3, 4, 4), np.int32)}, "must be uint8 or float32, got int32"),
        ({"test_labels": np.array([0, 9])}, r"test_labels .* must lie in 0 .. 2, got 0 .. 9"),
    ],
)
def test_a_bad_npz_file_is_refused_with_a_sentence(tmp_path, changes, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays(**changes))
    with pytest.raises(InputError, match=message):
        load_dataset(str(path))


def test_an_npz_file_that_lacks_an_array_names_it(tmp_path):
    path = tmp_path / "half.npz"
    np.savez(path, train_images=fields()["train_images"])
    with pytest.raises(InputError, match="lacks the arrays train_labels, test_images, test_labels"):
        load_dataset(str(path))


def test_an_npz_file_with_pickled_objects_is_refused(tmp_path):
    path = tmp_path / "objects.npz"
    np.savez(path, **arrays(train_labels=np.array([{}] * 6, dtype=object)))
    with pytest.raises(InputError, match=r"cannot be read .*plain arrays of numbers"):
        load_dataset(str(path))


def test_a_file_that_is_no_npz_and_a_file_that_is_not_there_are_told_apart(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(InputError, match="cannot be read"):
        load_dataset(str(tmp_path / "text.npz"))
    with pytest.raises(InputError, match="there is no file"):
        load_dataset(str(tmp_path / "absent.npz"))


def test_a_function_named_by_its_import_path_is_called(tmp_path, monkeypatch):
    (tmp_path / "own_data_module.py").write_text(
        "from fedsched.learning.dataset import load_dataset\n"
        "def good():\n    return load_dataset('digits')\n"
        "def bad():\n    return 5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_dataset("own_data_module:good").name == "digits"
    with pytest.raises(InputError, match=r"must return a .*Dataset, got int"):
        load_dataset("own_data_module:bad")


def test_an_unknown_name_gets_the_nearest_known_one():
    with pytest.raises(UnknownNameError, match="did you mean 'cifar10'"):
        load_dataset("cifar-10")
