"""SECURITY.md says what tests show: they exist, and the listeners are all there."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: What opens a port or a socket for others: functions that are called, and classes
#: that are inherited from.
OPENS = {
    *("add_insecure_port", "add_secure_port", "bind", "create_server"),
    *("start_server", "make_server", "HTTPServer", "ThreadingHTTPServer", "TCPServer"),
}
#: Tests, and after them the file that they are in.
NAMED = re.compile(r"((?:`test_\w+`(?:, )?)+) in `(tests/[\w/]+\.py)`")


def test_every_statement_names_tests_that_exist(repository: Path) -> None:
    page = (repository / "SECURITY.md").read_text(encoding="utf-8")
    named = [
        (name, file)
        for names, file in NAMED.findall(page)
        for name in re.findall(r"test_\w+", names)
    ]
    assert len(named) == len(re.findall(r"`test_\w+`", page)) > 20
    lost = [
        (name, file)
        for name, file in named
        if f"\ndef {name}(" not in (repository / file).read_text(encoding="utf-8")
    ]
    assert lost == []


def test_the_modules_that_open_ports_are_those_that_are_listed(
    repository: Path,
) -> None:
    page = (repository / "SECURITY.md").read_text(encoding="utf-8")
    listening = page.partition("## What listens")[2].partition("\n## ")[0]
    source = repository / "src" / "stepscope"
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if opens_a_port(path.read_text(encoding="utf-8"))
    }
    listed = set(re.findall(r"`([\w/]+\.py)`", listening))
    assert found == {path for path in listed if not path.startswith("tests/")}


def opens_a_port(text: str) -> bool:
    """Whether something in a module may open one."""
    if not any(word in text for word in OPENS):
        return False
    return any(
        (isinstance(node, ast.Call) and name_of(node.func) in OPENS)
        or (
            isinstance(node, ast.ClassDef)
            and any(name_of(base) in OPENS for base in node.bases)
        )
        for node in ast.walk(ast.parse(text))
    )


def name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
