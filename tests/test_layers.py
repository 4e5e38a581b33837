"""The agreement on who may import whom, read from the source so that late and type-only imports count as well."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

# A module imports only what stands before it, in an earlier layer or earlier in its own: so there are no cycles.
# `name.*` is a package whose modules may import each other. `` is `nestbo` itself, the public names.
LAYERS = {
    "foundations": ["_version", "lazy", "errors", "checks", "rng", "threads", "buffers"],
    "mathematics": [
        *["parameters", "bounds", "chart", "space", "embedding", "theory", "schedule", "region", "standardize"],
        *["gp.hyper", "gp.kernel", "gp.fit", "gp.posterior", "gp", "thompson"],
    ],
    "algorithm": ["settings", "events", "chain", "records", "state", "transitions", "refit", "propose"],
    "shells": [
        "result",
        "progress",
        "codec",
        "lock",
        "journal",
        "trial",
        "header",
        "evaluation",
        "workers",
        "pools",
        "executors",
        "optimizer",
        "loop",
        "minimize",
        "",
    ],
    "edges": ["integrations.*", "bench.*", "report.*", "cli.*", "__main__"],
}
ORDER = [name for names in LAYERS.values() for name in names]


def qualified(entry: str) -> str:
    """The full name of a module of the list: `gp.fit` is `nestbo.gp.fit`, the empty name is `nestbo`."""
    return f"nestbo.{entry}".rstrip(".")


def position(module: str) -> int | None:
    """Where a module stands in the list; None if it is not there."""
    for index, entry in enumerate(ORDER):
        package = qualified(entry.removesuffix(".*"))
        if module == package or (entry.endswith(".*") and module.startswith(f"{package}.")):
            return index
    return None


def sources() -> dict[str, tuple[bool, str]]:
    """Every module under src/nestbo: its full name -> (is it a package, its text)."""
    found = {}
    for path in sorted((SOURCE / "nestbo").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if package else parts)] = (package, path.read_text(encoding="utf-8"))
    return found


def imports(module: str, package: bool, text: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """The modules of nestbo that one of them imports, each with its line.

    `from nestbo import rng` imports the module `nestbo.rng`, `from nestbo import Space` a name of `nestbo`: `known`
    holds the names of the modules, and so tells them apart.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] == "nestbo")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")
                above = above[: len(above) - node.level + package]
                base = ".".join([*above, base]).rstrip(".")
            if base.split(".")[0] == "nestbo":
                for alias in node.names:
                    child = f"{base}.{alias.name}"
                    yield node.lineno, child if child in known else base


def violations(tree: Mapping[str, tuple[bool, str]]) -> list[str]:
    """One sentence for each module without a place and for each import that points the wrong way."""
    known = set(tree)
    found = []
    for module, (package, text) in tree.items():
        here = position(module)
        if here is None:
            found.append(
                f"{module} has no place in LAYERS of tests/test_layers.py: add it there, after what it imports"
            )
            continue
        for line, target in imports(module, package, text, known):
            there = position(target)
            within = ORDER[here].endswith(".*") and there == here
            # A module without a place is reported once, as itself, rather than at each import of it.
            if there is not None and there >= here and not within:
                found.append(
                    f"{module}:{line} imports {target}, which stands below it: move what they share upwards, "
                    "or the entry in LAYERS of tests/test_layers.py if the order is what is wrong"
                )
    return found


def test_imports_point_upwards_only():
    """No module of nestbo imports one from its own or a later place of the list, and each has a place."""
    tree = sources()
    assert "nestbo.errors" in tree
    assert not violations(tree), "\n" + "\n".join(violations(tree))


def test_a_module_has_one_place():
    """The list names no module twice, so its order means something."""
    assert len(ORDER) == len(set(ORDER))


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("nestbo.rng", "import nestbo.space"),
        ("nestbo.rng", "from nestbo.space import Space"),
        ("nestbo.rng", "from nestbo import space"),
        ("nestbo.rng", "from nestbo import Space"),
        ("nestbo.rng", "import nestbo"),
        ("nestbo.rng", "from . import space"),
        ("nestbo.rng", "from .space import Space"),
        ("nestbo.rng", "def late():\n    from nestbo.space import Space"),
        ("nestbo.rng", "if TYPE_CHECKING:\n    from nestbo.space import Space"),
        ("nestbo.rng", "import numpy, nestbo.space as s"),
        ("nestbo.gp.kernel", "from .fit import fit"),
        ("nestbo.gp.kernel", "from ..thompson import select"),
        ("nestbo.gp.fit", "from nestbo.gp import posterior"),
        ("nestbo.embedding", "from nestbo.embedding import Embedding"),
        ("nestbo.optimizer", "from nestbo.bench.problems import get"),
        ("nestbo.journal", "from nestbo.optimizer import Optimizer"),
        ("nestbo", "from nestbo.integrations import optuna"),
        ("nestbo.integrations.optuna", "from nestbo.cli import app"),
    ],
)
def test_an_import_that_points_downwards_is_found(module, text):
    """Whatever its form, an import of something that stands lower is reported, with its module and line."""
    tree = dict.fromkeys(("nestbo.space", "nestbo.gp.posterior", "nestbo.integrations.optuna"), (False, ""))
    found = violations({**tree, module: (module == "nestbo", text)})
    assert len(found) == 1
    assert found[0].startswith(f"{module}:{len(text.splitlines())} imports nestbo")


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("nestbo.space", "import numpy\nfrom nestbo.rng import stream\nfrom nestbo import errors\nfrom . import rng"),
        ("nestbo.gp.fit", "from .kernel import matern\nfrom ..errors import FitError"),
        ("nestbo", "from nestbo.minimize import minimize\nfrom nestbo import errors\nfrom .errors import NestboError"),
        ("nestbo.bench.runner", "import nestbo\nfrom nestbo.bench.problems import get\nfrom . import problems"),
        ("nestbo.cli", "from nestbo import minimize, report\nfrom nestbo.bench import runner"),
        ("nestbo.space", "import nestboard\nfrom nestboard.cli import app"),
    ],
)
def test_an_import_that_points_upwards_is_allowed(module, text):
    """What stands higher may be imported in any form, and other packages are not our business."""
    tree = {f"nestbo.{name}": (False, "") for name in ("errors", "rng", "report", "bench.problems", "bench.runner")}
    assert violations({**tree, module: (module == "nestbo", text)}) == []


def test_a_module_without_a_place_is_told_where_to_go():
    """A new module fails, once, with a message that says what to do about it."""
    tree = {"nestbo.novel": (False, ""), "nestbo.cli": (False, "import nestbo.novel"), "nestbo.gp.novel": (False, "")}
    found = violations(tree)
    assert [line.split()[0] for line in found] == ["nestbo.novel", "nestbo.gp.novel"]
    assert all("add it there" in line for line in found)
