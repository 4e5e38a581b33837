import json
import pickle
import sys

import numpy as np
import pytest

from nestbo.bench import datasets, problems
from nestbo.bench.problems import lasso
from nestbo.errors import NestboError, SettingsError

pytest.importorskip("celer", reason="needs the extra 'bench'")


@pytest.fixture
def dna(shared_data, monkeypatch):
    """Lasso-DNA on the user's own file."""
    monkeypatch.setenv("NESTBO_DATA_DNA", str(shared_data / "dna.npz"))
    return problems.get("lasso-dna")


def test_it_meets_the_original(dna, shared_data):
    """Every reference value of the original package is met to 1e-9."""
    reference = json.loads((shared_data / "lasso_reference.json").read_text())["bench"]["dna"]
    data = lasso.load_dna(shared_data / "dna.npz")
    assert reference["D"] == dna.space.dim == 180
    assert np.exp(data.log_alpha_max) == pytest.approx(reference["alpha_max"], abs=1e-12)
    assert np.exp(data.log_alpha_min) == pytest.approx(reference["alpha_min"], abs=1e-12)
    points = {
        "zeros": np.zeros(180),
        "minus_ones": -np.ones(180),
        "ones": np.ones(180),
        "rand0": np.random.default_rng(0).uniform(-1, 1, (3, 180))[0],
    }
    assert points.keys() == reference["values"].keys()
    for name, x in points.items():
        assert dna.evaluate(x) == pytest.approx(reference["values"][name], abs=1e-9), name


def test_libsvms_text_gives_the_same(dna, shared_data, tmp_path):
    """The text file that users download and the archive hold the same problem."""
    sklearn = pytest.importorskip("sklearn.datasets")
    with np.load(shared_data / "dna.npz") as archive:
        X, y = archive["X"].astype(np.float64), archive["y"].astype(np.float64)
    sklearn.dump_svmlight_file(X, y, str(tmp_path / "dna.scale"), zero_based=False)
    other = lasso.dna_problem(None, None, path=tmp_path / "dna.scale")
    x = np.linspace(0.2, 1.0, 180)
    assert other.evaluate(x) == dna.evaluate(x)


def test_what_it_says_about_itself(dna):
    """The box is [-1, 1]^180; which 43 inputs matter is not known, nor is the minimum; no seed changes it."""
    assert dna.name == "lasso-dna"
    np.testing.assert_array_equal(dna.space.low, -np.ones(180))
    np.testing.assert_array_equal(dna.space.high, np.ones(180))
    assert dna.active is None
    assert dna.optimum is None
    x = np.full(180, 0.8)
    assert problems.get("lasso-dna@180", seed=4).evaluate(x) == dna.evaluate(x)
    with pytest.raises(SettingsError, match="lasso-dna always has 180 dimensions, got lasso-dna@200: write lasso-dna"):
        problems.get("lasso-dna@200")


def test_a_pickle_is_small_and_stays_with_its_file(dna, monkeypatch):
    """A pickle holds the path and not the data, and means the same file where the environment differs."""
    x = np.full(180, 0.8)
    value = dna.evaluate(x)
    data = pickle.dumps(dna)
    assert len(data) < 20_000
    monkeypatch.delenv("NESTBO_DATA_DNA")
    lasso.load_dna.cache_clear()
    assert pickle.loads(data).evaluate(x) == value  # noqa: S301 - our own bytes


def test_the_data_are_read_once(dna, monkeypatch):
    """A second problem and all evaluations of a process share the data."""
    monkeypatch.setattr(lasso, "fetch", None)  # would fail if called again
    problems.get("lasso-dna").evaluate(np.ones(180))
    dna.evaluate(np.ones(180))


def test_another_part_of_the_data_is_refused(tmp_path):
    """The test part, or a file cut short, is told from the training part by its size."""
    path = tmp_path / "dna.scale.t"
    path.write_text("1 1:1 180:1\n" * 1186)
    with pytest.raises(NestboError, match=r"must hold X \(2000, 180\).*got \(1186, 180\).*take dna\.scale"):
        lasso.dna_problem(None, None, path=path)


def test_without_data_the_request_says_so(tmp_path, monkeypatch):
    """Where the data are not there and cannot be downloaded, asking for the problem is the error."""
    monkeypatch.setenv("NESTBO_CACHE", str(tmp_path))
    monkeypatch.delenv("NESTBO_DATA_DNA", raising=False)

    def offline(*_, **__):
        raise NestboError("no connection")

    monkeypatch.setattr(datasets, "download", offline)
    with pytest.raises(NestboError, match=r"no connection.*csie\.ntu\.edu\.tw.*dna\.scale.*NESTBO_DATA_DNA"):
        problems.get("lasso-dna")


def test_a_missing_package_is_said_before_anything_is_downloaded(monkeypatch, tmp_path):
    """Without celer nothing is fetched: the message names the extra."""
    monkeypatch.setitem(sys.modules, "celer", None)
    monkeypatch.setitem(sys.modules, "celer.datasets", None)
    monkeypatch.setattr(lasso, "fetch", None)
    own = tmp_path / "dna"
    own.touch()
    with pytest.raises(NestboError, match=r"lasso-dna needs celer and scikit-learn.*pip install 'nestbo\[bench\]'"):
        lasso.dna_problem(None, None, path=own)
