"""The folder list is the data flow: imports may only point backwards along it."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import stepscope
from stepscope.analysis.tools import TOOLS

SOURCE = Path(__file__).resolve().parents[1] / "src" / "stepscope"

BASE = {
    "cores",
    "errors",
    "frozen",
    "units",
    "hardware",
    "rundir",
    "remedies",
    "thresholds",
    "unavailable",
    "xspace",
    "_core",
}
THIRD_PARTY_OF_BASE = {"numpy", "msgspec", "Cython", "cython"}
FRAMEWORKS = {"tensorflow", "jax", "torch", "keras"}

#: Package → our packages it may import from (itself always).
MAY_IMPORT = {
    **dict.fromkeys(BASE, BASE),
    "capture": BASE,
    "trace": BASE,
    "formats": BASE | {"trace"},
    "derive": BASE | {"trace"},
    "analysis": BASE | {"trace", "derive"},
    "advice": BASE | {"trace", "derive", "analysis"},
    "report": BASE | {"analysis", "advice"},
    "session": BASE | {"trace", "formats", "derive", "analysis"},
    "compose": BASE
    | {"trace", "formats", "derive", "analysis", "advice", "report", "session"},
    "serve": BASE
    | {"trace", "formats", "derive", "analysis", "advice", "report", "session"}
    | {"compose"},
    "cli": BASE
    | {"trace", "formats", "derive", "analysis", "advice", "report", "session"}
    | {"compose", "serve", "capture"},
    "profiler": BASE
    | {"capture", "derive", "analysis", "advice", "report", "session", "compose"},
}
#: Imports that the contract does not want but that stand for now, each with its reason.
DEBTS: dict[tuple[str, str], str] = {}


def package_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imported_modules(path: Path, *, at_run_time_only: bool = False) -> set[str]:
    """Absolute module names that a file imports, inside functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    if at_run_time_only:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                skipped.update(ast.walk(node))
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


MODULES = sorted(
    path
    for path in SOURCE.rglob("*.py")
    if path.parent != SOURCE or path.stem[0] != "_"
)


@pytest.mark.parametrize(
    "path", MODULES, ids=[str(path.relative_to(SOURCE)) for path in MODULES]
)
def test_imports_point_back_along_the_data_flow(path: Path) -> None:
    package = package_of(path)
    allowed = MAY_IMPORT[package] | {package}
    forbidden = {
        (package, name.split(".")[1])
        for name in imported_modules(path)
        if name.startswith("stepscope.") and name.split(".")[1] not in allowed
        # Public names of the package itself, such as its version, are no layer.
        if name.split(".")[1] not in stepscope.__all__
    }
    assert forbidden - DEBTS.keys() == set()


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if package_of(path) in BASE],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_the_lowest_row_needs_numpy_and_msgspec_only(path: Path) -> None:
    tops = {name.split(".")[0] for name in imported_modules(path)}
    heavy = {"polars", "click", "rich", "pandas", "google", "werkzeug"} | FRAMEWORKS
    assert tops & heavy == set()


def imported_at_once(path: Path) -> set[str]:
    """Top names of the modules that importing a file imports, functions left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if guarded or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside.update(ast.walk(node))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in inside:
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node not in inside:
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if package_of(path) == "capture"],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_capture_imports_frameworks_when_they_are_used(path: Path) -> None:
    assert imported_at_once(path) & (FRAMEWORKS | {"grpc", "polars"}) == set()


#: Rooms of `analysis`, low to high. One imports from itself and from those before it,
#: those of the tools only from the rooms before all tools.
_BELOW_TOOLS = ("results", "options", "steps", "ops")
_TOOL_ROOMS = tuple(tool.name for tool in TOOLS)
_ABOVE_TOOLS = ("compat_tensorflow", "tools")


def test_a_tool_imports_no_other_tool_and_nothing_above_it() -> None:
    order = (*_BELOW_TOOLS, *_TOOL_ROOMS, *_ABOVE_TOOLS)
    crossings = set()
    for path in (SOURCE / "analysis").rglob("*.py"):
        room = path.relative_to(SOURCE / "analysis").with_suffix("").parts[0]
        if room == "__init__":
            continue
        allowed = {*order[: order.index(room)], room}
        if room in _TOOL_ROOMS:
            allowed = {*_BELOW_TOOLS, room}
        crossings |= {
            (room, name)
            for name in imported_modules(path)
            if name.startswith("stepscope.analysis.")
            and name.split(".")[2] not in allowed
        }
    assert crossings == set()


def file_imports(folder: Path) -> dict[str, set[str]]:
    """Module → modules of the folder that it imports, for type checkers too."""
    modules = {
        ".".join(("stepscope", *path.relative_to(SOURCE).with_suffix("").parts)): path
        for path in folder.rglob("*.py")
    }
    names = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    return {name: imported_modules(path) & names.keys() for name, path in names.items()}


def test_no_files_of_analysis_import_each_other_in_a_circle() -> None:
    sorter = TopologicalSorter(file_imports(SOURCE / "analysis"))
    try:
        sorter.prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_rules_read_signals_only() -> None:
    crossings = {
        (path.stem, name)
        for path in (SOURCE / "advice" / "rules").glob("*.py")
        for name in imported_modules(path)
        if name.startswith("stepscope.")
        and name.split(".")[1] in {"trace", "derive", "analysis", "formats"}
    }
    assert crossings == set()


@pytest.mark.parametrize("folder", ["analysis", "advice"])
def test_judging_and_analysing_name_no_framework_or_format_in_code(folder: str) -> None:
    """Branches on a framework or a format belong where a reader fills the tables."""
    words = {*FRAMEWORKS, "xplane", "kineto", "nsys", "pytorch"}
    found = []
    for path in (SOURCE / folder).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                constants = [
                    part.value.lower()
                    for part in ast.walk(node)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ]
                names = {
                    part.attr if isinstance(part, ast.Attribute) else part.id
                    for part in ast.walk(node)
                    if isinstance(part, ast.Attribute | ast.Name)
                }
                if words & set(constants) and "compat" not in names:
                    found.append((path.name, node.lineno, constants))
    assert found == []
