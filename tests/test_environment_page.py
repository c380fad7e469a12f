"""The page about environment variables names each one that the package reads."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path

import stepscope

SOURCE = Path(stepscope.__file__).parent
PAGE = Path(__file__).resolve().parents[1] / "docs" / "environment-variables.md"
#: What a variable's name looks like.
NAME = re.compile(r"_?[A-Z][A-Z0-9_]{3,}")
OWN = re.compile(r"[\"'](_?STEPSCOPE_[A-Z_]+)[\"']")
#: Names of a process's environment in code.
ENVIRONMENTS = re.compile(r"(?:\w+\.)?environ|environment")
#: Folders in which `environment` is that of a process, and not a table of a profile.
OF_PROCESSES = ("capture", "remote", "trials", "cli", "doctor", "rundir.py")
#: Capital letters in modules that look up variables in a loop, which name none.
OTHERS = {"ERROR", "M_ARENA_MAX", "M_MMAP_MAX", "M_TRIM_THRESHOLD"}


def keys_of(tree: ast.AST) -> list[ast.expr]:
    """What a module looks up in its process's environment, or sets there."""
    keys = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called, _, method = ast.unparse(node.func).rpartition(".")
            if method == "getenv" or (method == "get" and names_environment(called)):
                keys.append(node.args[0])
        elif isinstance(node, ast.Subscript) and is_environment(node.value):
            keys.append(node.slice)
        elif isinstance(node, ast.Dict) and any(map(is_environment, unpacked(node))):
            keys += [key for key in node.keys if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.Compare) and is_environment(node.comparators[0]):
            keys.append(node.left)
    return keys


def is_environment(node: ast.expr) -> bool:
    return names_environment(ast.unparse(node))


def names_environment(code: str) -> bool:
    return ENVIRONMENTS.fullmatch(code) is not None


def unpacked(node: ast.Dict) -> list[ast.expr]:
    """The mappings that a display of a dictionary contains."""
    pairs = zip(node.keys, node.values, strict=True)
    return [value for key, value in pairs if key is None]


def names_in(path: Path) -> set[str]:
    """The variables that a module names."""
    source = path.read_text(encoding="utf-8")
    names = set(OWN.findall(source))
    tree = ast.parse(source)
    for key in keys_of(tree):
        if isinstance(key, ast.Constant):
            names.add(str(key.value))
            continue
        module = importlib.import_module(module_name(path))
        value = getattr(module, key.id, None) if isinstance(key, ast.Name) else None
        if isinstance(value, str):
            names.add(value)
            continue
        # The names of a loop are in a table of the module.
        names |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    return {name for name in names if NAME.fullmatch(name)} - OTHERS


def module_name(path: Path) -> str:
    inside = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(("stepscope", *inside)).removesuffix(".__init__")


def names_in_package() -> set[str]:
    names: set[str] = set()
    for folder in OF_PROCESSES:
        place = SOURCE / folder
        for path in [place] if place.is_file() else place.rglob("*.py"):
            if "demo_programs" not in path.parts:
                names |= names_in(path)
    for path in SOURCE.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        names |= set(OWN.findall(source))
        if re.search(r"\bos\.(environ|getenv)\b", source):
            names |= names_in(path)
    options = json.loads((SOURCE / "cli" / "options.json").read_bytes())
    for rows in options.values():
        names |= {row["variable"] for row in rows.values() if "variable" in row}
    return names


def names_on_page() -> set[str]:
    page = PAGE.read_text(encoding="utf-8")
    return {word for word in re.findall(r"`(\w+)`", page) if NAME.fullmatch(word)}


def test_the_page_names_each_variable_that_is_read_and_no_other() -> None:
    read = names_in_package()
    assert len(read) > 30
    assert names_on_page() - OTHERS == read


def test_variables_for_stepscope_itself_are_named_as_internal() -> None:
    page = PAGE.read_text(encoding="utf-8")
    internal = page.partition("\nInternal, ")[2]
    assert set(re.findall(r"`(\w+)`", internal)) == {
        *("STEPSCOPE_RUN", "STEPSCOPE_TRY", "STEPSCOPE_SERVE"),
        *("STEPSCOPE_SERVE_CERTIFICATE", "_STEPSCOPE_COMPLETE"),
    }


def test_each_way_of_reading_is_seen() -> None:
    tree = ast.parse(
        "os.environ.get('AAAA'); os.environ['BBBB']; os.getenv('CCCC')\n"
        "'DDDD' in machine.environ; environment.get(KEY); rows['EEEE']\n"
        "{'FFFF': 1, **environment}; {'GGGG': 1, **rows}"
    )
    assert {ast.unparse(key) for key in keys_of(tree)} == {
        *("'AAAA'", "'BBBB'", "'CCCC'", "'DDDD'", "KEY", "'FFFF'")
    }
