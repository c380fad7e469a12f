"""Print what pip is to install for a part of the work, one requirement per line.

    python build_tools/requirements.py run | test | page | docs

`run`: what stepscope needs, and what compiles its kernels. `test`: what the tests and
the checks need besides. `page`: a Node.js, where the machine has none that will do.
`docs`: what builds the site of the documentation.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from web_page import NODE_PACKAGE, has_node


def requirements(part: str) -> list[str]:
    """As pyproject.toml declares them."""
    if part == "page":
        return [] if has_node() else [NODE_PACKAGE]
    declared = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    project = declared["project"]
    if part == "run":
        return [*declared["build-system"]["requires"], *project["dependencies"]]
    extras = project["optional-dependencies"]
    names = ("docs",) if part == "docs" else ("test", "dev")
    return [requirement for name in names for requirement in extras[name]]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
