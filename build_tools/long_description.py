"""The description that a package index shows: the README, without relative links.

A relative link leads to a file of the repository, which an index does not have. If
pyproject.toml declares the URL `Repository`, such links lead there, to the files of the
tag `v<version>`. Otherwise links become plain text, and images are left out.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: A link, or an image (with `!`).
LINK = re.compile(r"(!?)\[([^\]\[]*)\]\(([^)\s]+)\)")
#: A block of code, in which nothing is a link.
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
#: A target that needs no repository: a URL, or a heading of the same page.
ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|#")


def long_description(folder: Path) -> str:
    """Return the description of the project in a folder."""
    declared = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    project = declared["project"]
    return without_relative_links(
        (folder / "README.md").read_text(encoding="utf-8"),
        repository=project.get("urls", {}).get("Repository"),
        tag=f"v{project['version']}",
    )


def without_relative_links(text: str, *, repository: str | None, tag: str) -> str:
    """Return a page whose links lead to a repository, or are plain text without one."""

    def replace_link(link: re.Match[str]) -> str:
        mark, label, target = link.groups()
        if ABSOLUTE.match(target):
            return link[0]
        if repository is None:
            return "" if mark else label
        kind = "raw" if mark else "blob"
        return f"{mark}[{label}]({repository.rstrip('/')}/{kind}/{tag}/{target})"

    parts = FENCED.split(text)
    parts[::2] = [LINK.sub(replace_link, part) for part in parts[::2]]
    return "".join(parts)
