"""Fixtures that every test folder may use."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
#: Profiles that are part of the repository.
DATA = ROOT / "tests" / "data"
#: The folder with profiles of others (`make test-profiles`), where there is one.
PROFILES = Path(os.environ.get("STEPSCOPE_PROFILES") or os.devnull)
#: One that nobody can open; that it is refused has its own tests.
REFUSED = "corrupt/utf8_mangled"
#: Begins the ids of recorded runs.
RECORDED_RUN = "run:"
#: Runs that a test of all of them tries in `make test`: one or two of each framework,
#: format and kind of device. `make test-integrations` tries the others.
TYPICAL_RUNS = (
    *("gpu/check_torch", "gpu/jax_healthy", "gpu/kernels", "gpu/torch_graph"),
    *("jax_cpu/annotations", "tf_cpu/no_step_markers", "tf_eager", "torch_train"),
)
#: Mark → what a test that carries it takes, in seconds, unless the mark tells others;
#: without any it takes little.
EXPECTED_S = {"framework": 3.0, "browser": 0.8, "slow": 2.0}
#: Marks of tests that mostly wait, for a program or for the page.
WAITING = frozenset({"framework", "browser"})
#: Of one of many cases.
SWEPT = (pytest.mark.slow(seconds=0.3), pytest.mark.integration)
QUICK_S = 0.03
#: Why tests were left out → how many.
LEFT_OUT = pytest.StashKey[dict[str, int]]()
OF_OTHERS = "of profiles of others are left out: make test-profiles PROFILES=DIR"
OF_LONG_SWEEPS = "of long sweeps are left out: make test-thorough"

# The machine may be busy, so no example has a deadline. `make test` looks briefly,
# `make fuzz` longer.
settings.register_profile("brief", max_examples=12, deadline=None)
settings.register_profile("quick", max_examples=40, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("quick")


def profile_path(name: str) -> Path:
    """The path of a real profile: of the repository's, or else of others."""
    if (DATA / name).exists():
        return DATA / name
    if not PROFILES.is_dir():
        pytest.fail(f"{name} is a profile of others: mark the test with `profiles`")
    if not (PROFILES / name).exists():
        pytest.skip(f"{PROFILES} holds no {name}")
    return PROFILES / name


@pytest.fixture(scope="session")
def shared_profile() -> Callable[[str], Path]:
    """`shared_profile("tf_cpu/healthy")`: its path."""
    return profile_path


@pytest.fixture(scope="session", autouse=True)
def _own_runtime_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where programs note that they listen: each worker sees those of its own tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _plain_output() -> Iterator[None]:
    """Neither the width nor the colours of the terminal that starts the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("COLUMNS", "FORCE_COLOR", "CLICOLOR_FORCE"):
            patch.delenv(name, raising=False)
        yield


def recorded_runs(folder: Path) -> Iterator[str]:
    """Real profiles that are one run each: folders with traces, or packed databases."""
    found = {path.parent for path in folder.rglob("*.xplane.pb*")}
    for traces in ("kineto", "torch_cpu", "torch_train"):
        found |= {path.parent for path in (folder / traces).rglob("*.json*")}
    found |= {path.parent for path in (folder / "nsys_sqlite").rglob("*.sqlite")}
    found |= set((folder / "nsys_ladder").rglob("*.sqlite.gz"))
    for path in sorted(found):
        name = str(path.relative_to(folder))
        if not name.startswith(REFUSED):
            yield name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every run for a test that asks for a `recorded_run`, one after the other."""
    if "recorded_run" in metafunc.fixturenames:
        # A run that is in both folders is the repository's.
        runs = list(dict.fromkeys([*recorded_runs(DATA), *recorded_runs(PROFILES)]))
        names = [run.partition("/plugins/")[0] for run in runs]
        cases = [
            pytest.param(
                run,
                id=RECORDED_RUN + name,
                marks=() if name in TYPICAL_RUNS else SWEPT,
            )
            for run, name in zip(runs, names, strict=True)
        ]
        metafunc.parametrize("recorded_run", cases, scope="module")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="run what is marked thorough as well"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Mark tests that name a profile of others; leave them out where none are.

    What programs of a framework do depends on who else has the cores: a test of them
    has a second try, which the summary counts.
    """
    for item in items:
        if any(map(is_of_others, parameters_of(item))):
            item.add_marker(pytest.mark.profiles)
        if item.get_closest_marker("framework"):
            item.add_marker(pytest.mark.flaky(reruns=1))
    mark_sweeps(items)
    if not PROFILES.is_dir():
        leave_out(config, items, mark="profiles", why=OF_OTHERS)
    if not config.getoption("thorough"):
        leave_out(config, items, mark="thorough", why=OF_LONG_SWEEPS)
    arrange(items)


def leave_out(
    config: pytest.Config, items: list[pytest.Item], *, mark: str, why: str
) -> None:
    """Take out the tests with a mark, and count them."""
    left_out = [item for item in items if item.get_closest_marker(mark)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker(mark)]
    config.stash.setdefault(LEFT_OUT, {})[why] = len(left_out)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for garbage neither while tests are collected nor among them later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def mark_sweeps(items: list[pytest.Item]) -> None:
    """Mark the cases of a sweep, but for each nth of the repository's own."""
    met: Counter[str] = Counter()
    for item in items:
        sweep = item.get_closest_marker("sweep")
        if sweep is None or item.get_closest_marker("profiles"):
            continue
        test = item.nodeid.partition("[")[0]
        if met[test] % sweep.kwargs["every"]:
            for mark in SWEPT:
                item.add_marker(mark)
        met[test] += 1


def arrange(items: list[pytest.Item]) -> None:
    """Order the files so that no worker is left with a long one, and none is idle.

    Those that take longest begin. Files of programs and pages, which mostly wait, take
    turns with the others, which compute: both come to their ends together.
    """
    expected_s: Counter[str] = Counter()
    waiting: set[str] = set()
    for item in items:
        marks = [mark for mark in item.iter_markers() if mark.name in EXPECTED_S]
        needed = [it.kwargs.get("seconds", EXPECTED_S[it.name]) for it in marks]
        file = scope_of(item.nodeid)
        expected_s[file] += max(needed, default=QUICK_S)
        if any(mark.name in WAITING for mark in marks):
            waiting.add(file)
    turn: dict[str, float] = {}
    for group in (waiting, expected_s.keys() - waiting):
        files = sorted(group, key=lambda file: (-expected_s[file], file))
        whole_s = sum(expected_s[file] for file in files)
        before_s = 0.0
        for file in files:
            turn[file] = before_s / whole_s
            before_s += expected_s[file]
    items.sort(key=lambda item: turn[scope_of(item.nodeid)])


def scope_of(nodeid: str) -> str:
    """The tests that one worker runs: of a file, or of every recorded run.

    Such a run is judged once.
    """
    return RECORDED_RUN if RECORDED_RUN in nodeid else nodeid.partition("::")[0]


def parameters_of(item: pytest.Item) -> list[Any]:
    """What a test that opens real profiles was parametrised with."""
    if "shared_profile" not in getattr(item, "fixturenames", ()):
        return []
    return list(item.callspec.params.values()) if hasattr(item, "callspec") else []


def is_of_others(name: object) -> bool:
    """Whether a parameter is the name, SOURCE/PROFILE, of one that is not in DATA."""
    return isinstance(name, str) and "/" in name and not (DATA / name).exists()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells its numbers to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for why, count in config.stash.get(LEFT_OUT, {}).items():
        if count:
            terminalreporter.write_line(f"{count} tests {why}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give the workers whole scopes, in the order in which they were collected."""
    if config.getvalue("dist") != "loadfile":
        return None
    # Only a run with workers has the package.
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    # It would begin with the files that hold most tests.
    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def opened_profiles() -> dict[tuple[Path, ...], Any]:
    """The repository's profiles that a test opened, by their paths."""
    return {}


@pytest.fixture
def opened_once(
    opened_profiles: dict[tuple[Path, ...], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open each of the repository's profiles once for all tests that ask for this.

    For tests of what is shown of a profile: it keeps what was computed of it, and is
    never changed.
    """
    # Most tests need neither files nor tools.
    from stepscope import session  # noqa: PLC0415

    read, with_tools = session.open_hosts, session.ProfileWithTools

    def found(*paths: str | os.PathLike[str]) -> Any:
        key = tuple(Path(path).resolve() for path in paths)
        if not all(path.is_relative_to(DATA) for path in key):
            return read(*paths)
        if key not in opened_profiles:
            run, traces = read(*paths)
            opened_profiles[key] = run, traces, with_tools(run, traces)
        return opened_profiles[key][:2]

    def known(run: str, traces: Any) -> Any:
        for _, kept, profile in opened_profiles.values():
            if kept is traces:
                return profile
        return with_tools(run, traces)

    monkeypatch.setattr(session, "open_hosts", found)
    monkeypatch.setattr(session, "ProfileWithTools", known)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT
