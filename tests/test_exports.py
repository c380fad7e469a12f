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


def test_declared_names_exist_and_public_definitions_are_declared() -> None:
    names = [name for name in module_names() if name not in IMPORTED_BY]
    assert len(names) > 500
    assert {name: found for name in names if (found := undeclared(name))} == {}


@pytest.mark.parametrize("name", IMPORTED_BY)
def test_what_another_program_imports_is_declared_too(name: str) -> None:
    needed = IMPORTED_BY[name]
    pytest.importorskip(needed, reason=f"needs {needed} (pip install {needed})")
    assert undeclared(name) == set()


def undeclared(name: str) -> set[str]:
    """Names that a module declares and has not, or defines and does not declare."""
    module = importlib.import_module(name)
    if name.split(".")[1] == "_core":
        return set()
    declared = set(getattr(module, "__all__", ()))
    missing = {entry for entry in declared if not hasattr(module, entry)}
    return missing | (public_definitions(module) - declared)


def public_definitions(module: types.ModuleType) -> set[str]:
    """Functions and classes that a module defines itself under a public name."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and isinstance(value, type | types.FunctionType)
        and value.__module__ == module.__name__
    }
