"""The folder list is the data flow: imports may only point backwards along it."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.support.programs.statements import statements

import stepscope

pytestmark = pytest.mark.slow(seconds=0.1)

SOURCE = Path(__file__).resolve().parents[1] / "src" / "stepscope"

BASE = {
    "array_types",
    "cores",
    "data_sheets",
    "errors",
    "frozen",
    "patterns",
    "units",
    "hardware",
    "rundir",
    "remedies",
    "thresholds",
    "nvidia",
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
    # What names a file system is the same for reading and for writing.
    "remote": BASE | {"capture", "formats"},
    "doctor": BASE | {"trace", "derive"},
    "trace": BASE,
    "formats": BASE | {"trace"},
    "derive": BASE | {"trace"},
    "analysis": BASE | {"trace", "derive"},
    "advice": BASE | {"trace", "derive", "analysis"},
    "compare": BASE | {"trace", "derive", "analysis", "advice"},
    "trials": BASE | {"capture", "derive", "advice", "compare"},
    # What runs inside the program, next to its own packages.
    **dict.fromkeys(
        [
            f"trials.inside.{_}"
            for _ in ("armed", "setters", "step_timer", "turn_files")
        ],
        BASE | {"capture"},
    ),
    "reporting": BASE | {"analysis", "advice", "compare"},
    "reporting.outline.trials": BASE | {"advice", "compare", "trials"},
    "reporting.to_json": BASE | {"analysis", "advice", "compare", "trials"},
    # Its doors: from a profile to what the renderers are given.
    "reporting.envelope": BASE | {"trace", "derive"},
    "reporting.from_python": BASE | {"advice", "session"},
    "reporting.compose": BASE | {"trace", "derive", "analysis", "advice", "reporting"},
    # What a finding consists of is declared where it is derived.
    **dict.fromkeys(
        (
            *(
                "reporting.outline.gaps",
                "reporting.words.findings",
                "reporting.words.names",
            ),
        ),
        BASE | {"derive", "analysis", "advice", "compare"},
    ),
    # Whether a change can be tried is declared with the knobs.
    "reporting.words.predictions": BASE | {"derive", "advice", "trials"},
    # Where the two halves meet: files are opened, and become a profile with its tools.
    "session": BASE | {"formats", "analysis"},
    "serve": BASE
    | {
        *("formats", "derive", "analysis", "advice", "compare", "reporting", "session"),
        "remote",
    },
    "cli": BASE
    | {
        *("capture", "remote", "formats", "derive", "analysis", "advice", "compare"),
        *("reporting", "session", "serve", "doctor", "trials"),
    },
    # Adapters of libraries that train: they record, and print the first lines.
    "integrations": BASE | {"capture", "reporting"},
    "profiler": BASE
    | {"capture", "derive", "analysis", "advice", "reporting", "session"},
    "tracking": BASE | {"formats", "analysis", "advice", "reporting", "session"},
}
#: Package → room (a folder that holds no other) → what of its own package it imports,
#: and no more: rooms, and modules that stand beside them. A folder's own modules count
#: each for itself: its ground lies below its rooms, its face above them.
ROOMS = {
    "advice": {
        "judging": "catalogue finding item lost_time_verdict signals",
        "rules": ("catalogue finding item judging lost_time_verdict signals"),
    },
    "analysis": {
        "compat_tensorflow": (
            "input_pipeline_analyzer options overview_page results steps"
        ),
        "framework_op_stats": "ops options results",
        "gaps": "results steps",
        "hangs": "",
        "inference_profile": "options results",
        "input_pipeline_analyzer": "options results steps",
        "kernel_stats": "ops options results",
        "memory_profile": "options results",
        "model_views": "ops options results",
        "ops": "results",
        "overview_page": "ops options results steps",
        "pod_viewer": "options results steps",
        "results": "",
        "roofline_model": "ops options results",
        "steps": "results",
        "tf_data_bottleneck_analysis": "options results",
        "timeline": "results trace_viewer",
        "trace_viewer": "options results",
    },
    "capture": {
        "collectors.memory": "collectors.contract collectors.process base",
        "collectors.torch": (
            "collectors.contract collectors.frameworks collectors.levels base temporary"
        ),
        "collectors.workers": (
            "collectors.contract collectors.process collectors.sampled_frames base"
        ),
        "flight": (
            "collectors.compilations collectors.contract collectors.host "
            "collectors.levels collectors.process collectors.python_samples "
            "collectors.sampled_frames base recording"
        ),
        "base": "",
        "launching.injected": "",
        "launching.step_sources": (
            "base launching.counting launching.harmless launching.window"
        ),
        "recording": ("collectors.contract collectors.levels collectors.registry base"),
    },
    "cli": {
        "demo_programs": "",
        "trials": "light_start output report requests",
    },
    "derive": {
        "account": (
            "columns device host inference_requests intervals names reasons step_time "
            "step_windows steps"
        ),
        "collectives": "columns costs device host intervals names reasons",
        "columns": "",
        "costs": "",
        "device": "columns host intervals names",
        "facts": (
            "account collectives columns costs device frameworks host "
            "inference_requests input_pipeline intervals memory names ops profile_data "
            "replay run_derivation step_time step_windows steps verdicts"
        ),
        "host": "columns intervals names",
        "input_pipeline": (
            "account columns device host intervals names reasons step_time step_windows"
        ),
        "intervals": "columns",
        "memory": "columns reasons step_windows steps",
        "model": "columns device host intervals names ops step_windows steps",
        "names": "",
        "ops": "columns costs device host intervals names reasons step_windows steps",
        "predictions": "",
        "replay": "account columns device intervals reasons step_time step_windows",
        "step_time": "columns device host intervals names reasons step_windows steps",
        "step_windows": "columns device host intervals names reasons sequences steps",
        "steps": "columns device intervals names sequences",
        "trace_rows": (
            "columns device host intervals memory names schedule step_windows steps"
        ),
        "verdicts": (
            "account columns device profile_data reasons run_derivation step_time "
            "step_windows steps"
        ),
    },
    "formats": {
        "kineto.columns": "kineto.json",
        "kineto.json": "",
        "kineto.decoded": "assemble kineto.columns kineto.json",
        "kineto.tables": (
            "assemble declared_texts kineto.columns kineto.decoded kineto.json "
            "launch_shapes torch_allocations"
        ),
        "nsight_compute": "assemble declared_texts launch_shapes vendor_tool",
        "memory": "assemble declared_texts",
        "nsight_systems.database": "assemble",
        "nsight_systems.decoded": "assemble nsight_systems.database",
        "nsight_systems.tables": (
            "assemble declared_texts launch_shapes nsight_systems.database "
            "nsight_systems.decoded"
        ),
        "xplane.decoded": "assemble",
        "xplane.tables": (
            "assemble declared_texts hlo launch_shapes torch_allocations xplane.decoded"
        ),
    },
    "remote": {
        "access": "addresses captures client destinations messages transport",
    },
    "reporting": {
        "outline": "document envelope page words",
        "text": "outline page to_table words",
        "words": "page",
    },
    "serve": {
        "runs": "errors frames",
        "saved": "built frames runs",
    },
    "trace": {
        "reading": "quality",
    },
    "trials": {
        "inside": "",
    },
    "xspace": {
        "merging": "fields reading wire writing",
        "reading": "fields",
        "writing": "fields",
    },
}
#: Rooms whose folders are parts of one: the stages of the checklist, and their facts.
DIVIDED_ROOMS = ("advice.rules", "derive.facts")
MODULES_OF_A_FOLDER = 15


def name_of(path: Path) -> str:
    """The dotted name below `stepscope`; a package is named as its folder."""
    name = ".".join(path.relative_to(SOURCE).parts)
    return name.removesuffix(".py").removesuffix(".__init__")


def package_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


@cache
def imported_modules(path: Path) -> frozenset[str]:
    """Absolute module names that a file imports, inside functions too."""
    names: set[str] = set()
    for node in statements(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


MODULES = sorted(
    path
    for path in SOURCE.rglob("*.py")
    if path.parent != SOURCE or path.stem[0] != "_"
)


FOLDERS = {name_of(path.parent) for path in MODULES if path.parent != SOURCE}
FOLDERS_OF_ROOMS = {name.rpartition(".")[0] for name in FOLDERS} - {""}


def room_of(module: str) -> str:
    """The room that a module stands in; itself where it stands beside rooms."""
    for room in DIVIDED_ROOMS:
        if module.startswith(f"{room}."):
            return room
    if module in FOLDERS:
        return module
    folder = module.rpartition(".")[0]
    return module if folder in FOLDERS_OF_ROOMS or not folder else folder


#: Folders that are rooms: they hold modules, and no rooms of their own.
ALL_ROOMS = {room_of(name) for name in FOLDERS - FOLDERS_OF_ROOMS}


@cache
def arrows() -> dict[str, set[str]]:
    """Module → our modules that it imports, for type checkers too."""
    modules = {name_of(path): imported_modules(path) for path in MODULES}
    # `from a.b import c` names the folder `a.b` too: it counts if it hands on names.
    silent = {name for name in FOLDERS & modules.keys() if not modules[name]}
    return {
        module: {name.removeprefix("stepscope.") for name in imported}
        & modules.keys() - silent - {module}
        for module, imported in modules.items()
    }


def between_rooms(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {room_of(module): set() for module in arrows}
    for module, imported in arrows.items():
        found[room_of(module)] |= {room_of(name) for name in imported}
    return {room: imported - {room} for room, imported in found.items()}


def circle_in(graph: dict[str, set[str]]) -> str:
    """One circle of a graph, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " ← ".join(error.args[1])
    return ""


@pytest.mark.parametrize("package", ROOMS)
def test_a_room_imports_the_rooms_that_are_listed(package: str) -> None:
    rooms = between_rooms(arrows())
    found = {
        room.removeprefix(f"{package}."): {
            name.removeprefix(f"{package}.")
            for name in imported
            if name.startswith(f"{package}.")
        }
        for room, imported in rooms.items()
        if room.startswith(f"{package}.") and room in ALL_ROOMS
    }
    assert found == {room: set(it.split()) for room, it in ROOMS[package].items()}


def test_every_room_is_listed() -> None:
    listed = {f"{package}.{room}" for package in ROOMS for room in ROOMS[package]}
    assert listed == {name for name in ALL_ROOMS if "." in name}


def test_imports_between_rooms_go_one_way() -> None:
    assert circle_in(between_rooms(arrows())) == ""


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle_in(arrows()) == ""


def test_a_folder_holds_no_more_modules_than_one_can_take_in() -> None:
    held = Counter(
        name_of(path.parent)
        for path in MODULES
        # The door of a folder, and parts of the modules beside them, are none of them.
        if not path.stem.startswith("_")
    )
    full = {name for name, n in held.items() if n > MODULES_OF_A_FOLDER}
    assert full == set()


def test_a_module_does_not_repeat_the_name_of_its_folder() -> None:
    repeating = {
        name_of(path)
        for path in MODULES
        if path.stem == path.parent.name or path.stem.startswith(f"{path.parent.name}_")
    }
    assert repeating == set()


def test_an_init_holds_a_docstring_or_hands_on_names() -> None:
    inits = [path for path in MODULES if path.stem == "__init__"]
    assert inits
    for path in inits:
        first, *rest = ast.parse(path.read_text(encoding="utf-8")).body
        assert isinstance(first, ast.Expr), path
        kinds = {type(node) for node in rest}
        assert kinds <= {ast.Import, ast.ImportFrom, ast.Assign}, path
        assigned = [
            ast.unparse(node.targets[0])
            for node in rest
            if isinstance(node, ast.Assign)
        ]
        assert assigned in ([], ["__all__"]), path


def forbidden_in(path: Path) -> set[str]:
    """The packages that a file imports and may not."""
    package = package_of(path)
    allowed = MAY_IMPORT.get(name_of(path), MAY_IMPORT[package]) | {package}
    imported = {
        name.split(".")[1]
        for name in imported_modules(path)
        if name.startswith("stepscope.")
    }
    # Public names of the package itself, such as its version, are no layer.
    return imported - allowed - set(stepscope.__all__)


def test_imports_point_back_along_the_data_flow() -> None:
    found = {name_of(path): forbidden_in(path) for path in MODULES}
    assert {name: packages for name, packages in found.items() if packages} == {}


def test_the_lowest_row_needs_numpy_and_msgspec_only() -> None:
    heavy = {"polars", "click", "pandas", "google", "werkzeug"} | FRAMEWORKS
    found = {
        (name_of(path), name.split(".")[0])
        for path in MODULES
        if package_of(path) in BASE
        for name in imported_modules(path)
    }
    assert {(path, name) for path, name in found if name in heavy} == set()


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


def test_capture_imports_frameworks_when_they_are_used() -> None:
    found = {
        (name_of(path), name)
        for path in MODULES
        if package_of(path) == "capture"
        for name in imported_at_once(path)
    }
    late = FRAMEWORKS | {"grpc", "polars"}
    assert {(path, name) for path, name in found if name in late} == set()


def test_rules_read_neither_tables_nor_tools_nor_files() -> None:
    crossings = {
        (path.stem, name)
        for path in (SOURCE / "advice" / "rules").rglob("*.py")
        for name in imported_modules(path)
        if name.startswith("stepscope.")
        and name.split(".")[1] in {"trace", "analysis", "formats"}
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
