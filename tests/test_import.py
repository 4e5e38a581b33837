"""What `import nestbo` costs and does: each check starts a fresh interpreter."""

import subprocess
import sys

import pytest

HEAVY = ["scipy.stats", "scipy.optimize", "pandas", "matplotlib", "sklearn", "optuna", "torch", "typer", "rich"]


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter in which warnings are errors."""
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The modules that `import nestbo` adds to an interpreter."""
    done = python("import sys; before = set(sys.modules); import nestbo; print(*set(sys.modules) - before, sep='\\n')")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_is_silent():
    """`import nestbo` succeeds, writes nothing and warns of nothing."""
    done = python("import nestbo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", HEAVY)
def test_import_leaves_heavy_modules_alone(loaded, name):
    """Slow or optional packages are imported by what needs them, never by `import nestbo`."""
    assert "nestbo" in loaded
    assert sorted(module for module in loaded if module == name or module.startswith(f"{name}.")) == []


def test_what_the_interface_names_is_there_after_import_nestbo():
    """Edges are imported when they are first used, so that their names work as they are written in the docs."""
    code = (
        "import nestbo, sys; assert not [name for name in sys.modules if name.startswith('nestbo.bench')]\n"
        "print(nestbo.bench.problems.get('branin2@5').space.dim, nestbo.bench.methods.get('turbo-1').name)\n"
        "from nestbo import integrations\n"
        "try: nestbo.bench.problem\n"
        "except AttributeError as error: print(error)"
    )
    done = python(code)
    assert done.stdout == "5 turbo-1\nmodule 'nestbo.bench' has no attribute 'problem'\n", done.stderr
