import zipfile

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from fedsched import archives
from fedsched.errors import InputError
from fedsched.learning.dataset import load_dataset
from fedsched.radio.names import make_channel


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(archives, "_FREE_BYTES", 10_000)


def sentence(path):
    return rf"{path.name}' has [\d,]+ bytes and would unpack to [\d,]+; above 10,000 at most 100"


def test_a_data_set_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    images = np.zeros((50, 1, 64, 64), np.uint8)
    labels = np.arange(50) % 2
    arrays = {"train_images": images, "test_images": images}
    arrays |= {"train_labels": labels, "test_labels": labels}
    np.savez_compressed(path, **arrays)
    with pytest.raises(InputError, match="dataset: .*" + sentence(path)):
        load_dataset(str(path))
    np.savez(path, **arrays)  # what is as large as it says is not held back
    assert load_dataset(str(path)).image_shape == (1, 64, 64)


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_trace_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path, suffix):
    path = tmp_path / f"bomb{suffix}"
    if suffix == ".npz":
        np.savez_compressed(path, gain=np.ones((100_000, 2)))
    else:
        parquet.write_table(pyarrow.table({"a": np.ones(100_000), "b": np.ones(100_000)}), path)
    with pytest.raises(InputError, match="trace " + ".*" + sentence(path)):
        make_channel(str(path))


def test_what_a_zip_says_of_its_members_is_never_exceeded(tmp_path):
    # A member that lies about its size cannot give more than it says.
    path = tmp_path / "liar.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(5_000_000))
    honest = (5_000_000).to_bytes(4, "little")
    content = path.read_bytes()
    assert content.count(honest) == 2
    path.write_bytes(content.replace(honest, (5_000).to_bytes(4, "little")))
    archives.check_zip("trace", path)
    with zipfile.ZipFile(path) as archive, pytest.raises(zipfile.BadZipFile):
        archive.read("zeros")
