"""What the package says it exports is what it exports."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import stepscope

#: Modules that only another program imports, which need not be installed here.
IMPORTED_BY = {
    "stepscope.integrations.accelerate": "accelerate",
    "stepscope.integrations.huggingface": "transformers",
    "stepscope.integrations.lightning": "lightning",
    "stepscope.serve.tensorboard": "tensorboard",
}


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


def test_every_module_imports_and_has_the_names_that_it_declares() -> None:
    names = [name for name in module_names() if name not in IMPORTED_BY]
    assert len(names) > 500
    assert {name: missing for name in names if (missing := missing_names(name))} == {}


@pytest.mark.parametrize("name", IMPORTED_BY)
def test_what_another_program_imports_has_its_names_too(name: str) -> None:
    needed = IMPORTED_BY[name]
    pytest.importorskip(needed, reason=f"needs {needed} (pip install {needed})")
    assert missing_names(name) == set()


def missing_names(name: str) -> set[str]:
    """Names that a module declares and does not have."""
    module = importlib.import_module(name)
    return {
        declared
        for declared in getattr(module, "__all__", ())
        if not hasattr(module, declared)
    }
