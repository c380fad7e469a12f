"""Print what pip is to install for a part of the work, one requirement per line.

    python build_tools/requirements.py run | oldest | test | page | dist | docs

`run`: what stepscope needs, and what compiles its kernels. `oldest`: the same, each in
the oldest version that pyproject.toml allows. `test`: what the tests and the checks
need besides. `page`: a Node.js, where the machine has none that will do. `dist`: what
makes the files that can be uploaded. `docs`: what builds the site of the documentation.
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
    needed = [*declared["build-system"]["requires"], *project["dependencies"]]
    if part == "run":
        return needed
    if part == "oldest":
        return [one.replace(">=", "==") for one in needed]
    extras = project["optional-dependencies"]
    return [*extras["test"], *extras["dev"]] if part == "test" else extras[part]


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
