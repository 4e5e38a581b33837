"""Parts of a package that are imported when they are first used.

`nestbo.bench.problems.get(...)` works after `import nestbo` alone, which imports nothing that a run does not need.
"""

import importlib
from collections.abc import Callable
from types import ModuleType


def submodules(package: str, *names: str) -> Callable[[str], ModuleType]:
    """What a package takes for its `__getattr__`.

    Args:
        package: Its full name.
        names: Its submodules that may be used without being imported.

    >>> submodules("nestbo", "theory")("theory").__name__
    'nestbo.theory'
    """

    def attribute(name: str) -> ModuleType:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name)

    return attribute
