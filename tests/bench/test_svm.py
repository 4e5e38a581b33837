import pickle
import sys
import zipfile

import numpy as np
import pytest

from nestbo.bench import problems
from nestbo.bench.problems import svm
from nestbo.errors import NestboError, SettingsError

sklearn_svm = pytest.importorskip("sklearn.svm", reason="needs the extra 'bench'")


@pytest.fixture
def table(shared_data):
    """The real rows as the CSV file has them: patient, 384 features, target."""
    with np.load(shared_data / "ct_slice_first682_rows.npz") as archive:
        return np.column_stack([archive["patient"], archive["X"], archive["y"]]).astype(np.float64)  # 682 x 386


@pytest.fixture
def problem(shared_data, monkeypatch):
    """The problem on the user's own file."""
    monkeypatch.setenv("NESTBO_DATA_CT_SLICES", str(shared_data / "ct_slice_first682_rows.npz"))
    return problems.get("svm")


def recipe(table, x):
    """The value, with every step written out and the kernel computed by hand."""
    low, high = table.min(axis=0), table.max(axis=0)  # 386 each
    scaled = (table - low) / np.where(high > low, high - low, 1.0)  # rows x 386
    rows = np.random.RandomState(388).choice(len(table), min(10_000, len(table)), replace=False)
    half = len(rows) // 2
    x = np.square(x)
    features = scaled[:, :385] / np.exp(4 * x[:385] - 2)
    train, test = features[rows[:half]], features[rows[half:]]

    def kernel(a, b):
        squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
        return np.exp(-0.1 * 30 ** x[386] * np.maximum(squares, 0.0))

    model = sklearn_svm.SVR(kernel="precomputed", C=0.01 * 500 ** x[387], epsilon=0.01 * 100 ** x[385])
    model.fit(kernel(train, train), scaled[rows[:half], 385])
    return np.sqrt(np.mean((model.predict(kernel(test, train)) - scaled[rows[half:], 385]) ** 2))


@pytest.mark.parametrize("seed", range(4))
def test_the_value_is_that_of_the_recipe(problem, table, seed):
    """Values agree with the recipe written out, with a kernel matrix of our own, at random points."""
    x = np.random.default_rng(seed).uniform(0, 1, 388)
    assert problem.evaluate(x) == pytest.approx(recipe(table, x), rel=1e-6)


def test_large_files_give_ten_thousand_rows(table, tmp_path):
    """Of a larger file 10,000 rows are drawn, without replacement, half to train and half to test."""
    many = np.tile(table, (15, 1))  # 10230 rows
    many[:, -1] = np.arange(len(many))
    np.savez(tmp_path / "many.npz", patient=many[:, 0], X=many[:, 1:385], y=many[:, 385])
    data = svm.load(tmp_path / "many.npz")
    assert data.X.shape == data.X_test.shape == (5000, 385)
    assert len(set(data.y) | set(data.y_test)) == 10_000
    assert all(part.min() >= 0.0 and part.max() <= 1.0 for part in data)


def test_the_csv_of_the_source_gives_the_same(problem, table, tmp_path):
    """The zipped CSV that users download and the archive of NumPy's hold the same problem."""
    np.savetxt(tmp_path / "a.csv", table, delimiter=",", header=",".join(f"c{i}" for i in range(386)), fmt="%.17g")
    with zipfile.ZipFile(tmp_path / "ct.zip", "w") as archive:
        archive.write(tmp_path / "a.csv", "slice_localization_data.csv")
    other = svm.svm_problem(None, None, path=tmp_path / "ct.zip")
    x = np.full(388, 0.6)
    assert other.evaluate(x) == problem.evaluate(x)


def test_what_it_says_about_itself(problem):
    """The box is [0, 1]^388; nothing is known about the minimum; no seed changes it; evaluating changes no input."""
    assert problem.name == "svm"
    np.testing.assert_array_equal(problem.space.low, np.zeros(388))
    np.testing.assert_array_equal(problem.space.high, np.ones(388))
    assert problem.optimum is None
    assert problem.active is None
    x = np.full(388, 0.5)
    assert problems.get("svm@388", seed=4).evaluate(x) == problem.evaluate(x) == problem.evaluate(x)
    np.testing.assert_array_equal(x, np.full(388, 0.5))
    with pytest.raises(SettingsError, match="svm always has 388 dimensions, got svm@100: write svm"):
        problems.get("svm@100")


def test_each_of_the_three_settings_and_the_scales_matter(problem):
    """Epsilon, gamma, C, the scale of the patient and that of a feature each change the value."""
    x = np.full(388, 0.95)  # wide enough that rows of different patients are not simply unlike
    x[385:] = 0.4
    values = [problem.evaluate(x)]
    for i in (0, 50, 385, 386, 387):
        moved = x.copy()
        moved[i] = 0.1
        values.append(problem.evaluate(moved))
    assert len(set(values)) == 6


def test_a_pickle_is_small_and_the_data_are_read_once(problem, monkeypatch):
    """A pickle holds the path and not the data; a process reads them once, wherever the environment points."""
    x = np.full(388, 0.5)
    value = problem.evaluate(x)
    data = pickle.dumps(problem)
    assert len(data) < 20_000
    monkeypatch.setenv("NESTBO_DATA_CT_SLICES", "/nowhere")
    monkeypatch.setattr(svm, "fetch", None)  # would fail if called again
    assert pickle.loads(data).evaluate(x) == value  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((4, 384)), "y": np.ones(4)}, "with the arrays patient, X, y"),
        ({"patient": np.ones(4), "X": np.ones((4, 385)), "y": np.ones(4)}, r"X \(rows, 384\).*got \(4,\), \(4, 385\)"),
        ({"patient": np.ones(1), "X": np.ones((1, 384)), "y": np.ones(1)}, "at least two rows, got 1"),
    ],
)
def test_other_data_are_refused(arrays, message, tmp_path):
    """Arrays that are missing, of another shape or too few say what was expected."""
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(NestboError, match=message):
        svm.svm_problem(None, None, path=tmp_path / "bad.npz")


def test_a_missing_package_is_said_before_anything_is_downloaded(monkeypatch, tmp_path):
    """Without scikit-learn nothing is fetched: the message names the extra."""
    monkeypatch.setitem(sys.modules, "sklearn.preprocessing", None)
    monkeypatch.setattr(svm, "fetch", None)
    own = tmp_path / "ct.zip"
    own.touch()
    with pytest.raises(NestboError, match=r"svm needs scikit-learn.*pip install 'nestbo\[bench\]'"):
        svm.svm_problem(None, None, path=own)
