"""What the package says it exports is what it exports."""

from __future__ import annotations

import importlib
import pkgutil
import types

import pytest

import stepscope

#: Modules that only another program imports, which need not be installed here.
IMPORTED_BY = {"stepscope.serve.tensorboard": "tensorboard"}


def module_names() -> list[str]:
    found = pkgutil.walk_packages(stepscope.__path__, "stepscope.")
    return sorted(info.name for info in found if info.name != "stepscope.__main__")


def test_every_public_name_resolves() -> None:
    resolved = {name: getattr(stepscope, name) for name in stepscope.__all__}
    assert all(value is not None for value in resolved.values())


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = stepscope.no_such_name


def test_dir_lists_the_public_names() -> None:
    assert dir(stepscope) == sorted(stepscope.__all__)


@pytest.mark.parametrize("name", module_names())
def test_declared_names_exist_and_public_definitions_are_declared(name: str) -> None:
    if name in IMPORTED_BY:
        needed = IMPORTED_BY[name]
        pytest.importorskip(needed, reason=f"needs {needed} (pip install {needed})")
    module = importlib.import_module(name)
    declared = getattr(module, "__all__", None)
    if name.split(".")[1] == "_core" or declared is None:
        assert name.split(".")[1] == "_core" or not public_definitions(module)
        return
    assert {entry for entry in declared if not hasattr(module, entry)} == set()
    assert public_definitions(module) - set(declared) == set()


def public_definitions(module: types.ModuleType) -> set[str]:
    """Functions and classes that a module defines itself under a public name."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and isinstance(value, type | types.FunctionType)
        and value.__module__ == module.__name__
    }
