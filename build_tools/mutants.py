"""Change one place after the other, and see whether the tests notice.

    python build_tools/mutants.py [--places N] [--seed TEXT] [--workers N]

draws places of `derive`, `advice` and `analysis` (by the hash of the commit), changes
each in memory as `mutations.py` lists it, and runs the tests during which its block
runs, the quickest first, until one fails. A change that no test notices survives: it
is printed. At least 85 % have to die.

Which tests run which block is found once for each state of the code, by running them
with probes, and kept in `~/.cache/stepscope/mutants`. Each test file and each change
has a process of its own, forked from this one, which has imported what all of them
need; nothing is written into the checkout.
"""

import argparse
import ast
import builtins
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import chain
from pathlib import Path
from types import CodeType
from typing import Any, Final, NamedTuple, TypeVar

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mutations import HITS, MODULE_BLOCK, Place, find_places, insert_probes

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("derive", "advice", "analysis")
#: Folders and files of tests that judge what these packages answer.
TESTS: Final = (
    *("advice", "analysis", "derive", "compare", "property", "cli", "report"),
    *("formats", "benchmarks", "test_hardware.py", "test_thresholds.py"),
    *("test_reasons.py", "test_remedies.py", "test_use_cases.py"),
)
CORE: Final = "not framework and not integration and not browser and not profiles"
CACHE: Final = Path(
    os.environ.get("STEPSCOPE_CACHE", Path.home() / ".cache" / "stepscope")
)
MUST_DIE: Final = 0.85
#: Of the tests that run a block, so many are tried, at most so many of one function.
MAX_TESTS: Final = 400
MAX_CASES_OF_TEST: Final = 40
#: Tests are run in rounds that take about so long: most changes die in the first.
ROUNDS_S: Final = (1.0, 8.0, 60.0)
#: What a process may take beyond four times the expected: then it never ends.
PATIENCE_S: Final = 60
#: So many places are tried without a change first: nothing may fail there.
CONTROLS: Final = 4
NO_CHANGE: Final = ""
#: The status of a process in which not a test failed but this program.
FAULTY: Final = 70
PYTEST: Final = (
    "-q",
    "-p",
    "no:cacheprovider",
    "--hypothesis-profile",
    "brief",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)

Block = tuple[str, int]
Key = TypeVar("Key")


class Test(NamedTuple):
    """A test that passes, with the processor time that it takes."""

    name: str
    seconds: float


class Mutant(NamedTuple):
    """One change: of which module, at which of its places, by which operator."""

    module: str
    ordinal: int
    operator: str


class Changing(MetaPathFinder):
    """Loads some modules with a changed tree."""

    def __init__(
        self, names: Iterable[str], change: Callable[[ast.Module], object]
    ) -> None:
        self.names = frozenset(names)
        self.change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """The module as Python finds it, with a loader of its own."""
        del target
        if fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        change = self.change

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                file = self.get_filename(fullname)
                tree = ast.parse(self.get_data(file))
                change(tree)
                return compile(tree, file, "exec", dont_inherit=True)

        spec.loader = Loader(fullname, spec.loader.path)
        return spec


class Recorder:
    """A plugin of pytest that notes which blocks run in each test that passes."""

    def __init__(self, hits: set[Block]) -> None:
        self.hits = hits
        self.shared: set[Block] = set()
        self.tests: list[tuple[Test, list[Block]]] = []
        self.failed = False

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """What a fixture of several tests runs counts for each of them."""
        before = set(self.hits)
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.shared |= self.hits - before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note the blocks of one test."""
        if not self.tests:
            self.shared |= self.hits  # while the file was imported
        self.hits.clear()
        self.failed = False
        begun_s = time.process_time()
        result = yield
        if not self.failed:
            test = Test(item.nodeid, round(time.process_time() - begun_s, 3))
            self.tests.append((test, list(self.hits)))
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out what fails, or is skipped, without any change."""
        self.failed |= not report.passed


def main(arguments: list[str]) -> None:
    """Draw, change, run, and say which changes survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=200)
    parser.add_argument("--seed", default="")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    commit = _git("rev-parse", "HEAD")
    begun_s = time.monotonic()
    _import_what_all_need()
    changes = hashlib.sha256(_git("diff", "HEAD").encode()).hexdigest()
    blocks = load_blocks(f"{commit[:12]}-{changes[:12]}", options.workers)
    mutants = draw_mutants(options.places, options.seed or commit)

    def outlives_its_tests(mutant: Mutant) -> int:
        return outlives(mutant, related_tests(mutant, blocks))

    controls = [mutant._replace(operator=NO_CHANGE) for mutant in mutants[:CONTROLS]]
    for control, status in run_forked(outlives_its_tests, controls, options.workers):
        if status:
            sys.exit(f"tests of {control.module} fail without any change")
    survivors = []
    tried = run_forked(outlives_its_tests, mutants, options.workers)
    for count, (mutant, status) in enumerate(tried, 1):
        place, change = describe(mutant)
        lives = status == 0
        print(f"{count:4}  {'SURVIVES' if lives else 'dies':8}  {place}  {change}")
        sys.stdout.flush()
        if lives:
            survivors.append(mutant)
    died = 1 - len(survivors) / len(mutants)
    print(
        f"{died:.1%} of {len(mutants)} changes die, in "
        f"{(time.monotonic() - begun_s) / 60:.1f} minutes; "
        f"of those that survive, no test runs "
        f"{sum(not related_tests(mutant, blocks) for mutant in survivors)}"
    )
    if died < MUST_DIE:
        sys.exit(f"fewer than {MUST_DIE:.0%} die")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.check_output(command, text=True).strip()


def _import_what_all_need() -> None:
    """Import, before any process is forked, what is not part of this project."""
    os.environ |= {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    os.chdir(ROOT)
    import hypothesis.strategies  # noqa: F401, PLC0415 - after the settings
    import msgspec  # noqa: F401, PLC0415
    import polars.testing  # noqa: F401, PLC0415


# --- which changes ---


def source_of(module: str) -> Path:
    """The file of a module."""
    path = ROOT / "src" / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def modules() -> list[str]:
    """The modules that are changed."""
    source = ROOT / "src"
    files = (
        file for name in PACKAGES for file in source.glob(f"stepscope/{name}/**/*.py")
    )
    names = (file.relative_to(source).with_suffix("").as_posix() for file in files)
    return sorted(name.replace("/", ".").removesuffix(".__init__") for name in names)


def draw_mutants(count: int, seed: str) -> list[Mutant]:
    """As many changes, each at another place, of all that are possible."""
    places = [
        (module, ordinal, sorted(place.replacements))
        for module in modules()
        for ordinal, place in enumerate(_places(module))
    ]
    chance = random.Random(seed)  # noqa: S311 - no secret
    drawn = chance.sample(places, min(count, len(places)))
    return [Mutant(name, place, chance.choice(names)) for name, place, names in drawn]


def _places(module: str) -> list[Place]:
    return find_places(ast.parse(source_of(module).read_bytes()))


def describe(mutant: Mutant) -> tuple[str, str]:
    """Where a change is, and what it is."""
    place = _places(mutant.module)[mutant.ordinal]
    where = f"{source_of(mutant.module).relative_to(ROOT)}:{place.line}"
    return where, place.replace(mutant.operator)[:150]


# --- which tests ---


def load_blocks(state: str, workers: int) -> dict[Block, list[Test]]:
    """The tests that run each block, the quickest first; found once for a state."""
    file = CACHE / "mutants" / f"{state}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            found = find_blocks(Path(folder), workers)
        numbers = {
            test: number for number, test in enumerate(set(chain(*found.values())))
        }
        lines = [
            [*block, [numbers[it] for it in tests]] for block, tests in found.items()
        ]
        file.write_text(json.dumps([[*numbers], lines]), encoding="utf-8")
    tests, lines = json.loads(file.read_bytes())
    known = [Test(*test) for test in tests]
    return {
        (name, line): [known[at] for at in numbers] for name, line, numbers in lines
    }


def find_blocks(folder: Path, workers: int) -> dict[Block, list[Test]]:
    """Run every test file with probes, each in a process of its own."""
    paths = [ROOT / "tests" / name for name in TESTS]
    files = [file for path in paths for file in sorted(path.rglob("test_*.py"))]
    files += [path for path in paths if path.is_file()]

    def record_file(file: Path) -> int:
        return record(file, folder / f"{files.index(file)}.json")

    for count, (file, _) in enumerate(run_forked(record_file, files, workers), 1):
        print(
            f"\r{count} of {len(files)}  {file.name[:50]:50}", end="", file=sys.stderr
        )
    print(file=sys.stderr)
    by_block: dict[Block, list[Test]] = defaultdict(list)
    for written in folder.iterdir():
        for test, hits in json.loads(written.read_bytes()):
            for name, line in hits:
                by_block[name, line].append(Test(*test))
    return {block: _choose(tests) for block, tests in by_block.items()}


def record(file: Path, output: Path) -> int:
    """Write which blocks each test of a file runs."""
    hits: set[Block] = set()
    setattr(builtins, HITS, hits)
    sys.meta_path.insert(0, Changing(modules(), insert_probes))
    recorder = Recorder(hits)
    status = pytest.main([*PYTEST, "-m", CORE, str(file)], plugins=[recorder])
    tests = [
        (test, sorted({*blocks, *recorder.shared}, key=str))
        for test, blocks in recorder.tests
    ]
    output.write_text(json.dumps(tests), encoding="utf-8")
    return int(status)


def _choose(tests: Iterable[Test]) -> list[Test]:
    """The quickest, but only some cases of each function."""
    chosen = []
    met: Counter[str] = Counter()
    for test in sorted(tests, key=lambda test: test.seconds):
        function = test.name.partition("[")[0]
        met[function] += 1
        if met[function] <= MAX_CASES_OF_TEST:
            chosen.append(test)
    return chosen[:MAX_TESTS]


def related_tests(mutant: Mutant, blocks: dict[Block, list[Test]]) -> list[Test]:
    """The tests that run a block, or, of what is set at import, those of its module.

    A module without functions is judged by those that import names from it.
    """
    block = _places(mutant.module)[mutant.ordinal].block
    if block != MODULE_BLOCK:
        return blocks.get((mutant.module, block), [])
    users = {mutant.module}
    if not any(name == mutant.module for name, _ in blocks):
        users = {name for name in modules() if mutant.module in _imported(name)}
    tests = {
        test for block, tests in blocks.items() if block[0] in users for test in tests
    }
    return _choose(tests)


def _imported(module: str) -> set[str]:
    tree = ast.parse(source_of(module).read_bytes())
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    parts = {f"{node.module}.{name.name}" for node in froms for name in node.names}
    return parts | {str(node.module) for node in froms}


# --- processes ---


def outlives(mutant: Mutant, tests: list[Test]) -> int:
    """Zero where every test passes in spite of a change."""
    rounds: list[list[str]] = [[] for _ in ROUNDS_S]
    sum_s = 0.0
    for test in tests:
        sum_s += test.seconds
        turn = sum(sum_s > limit_s for limit_s in ROUNDS_S)
        if turn < len(rounds):
            rounds[turn].append(test.name)
    limit_s = int(4 * min(sum_s, ROUNDS_S[-1])) + PATIENCE_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))

    def change(tree: ast.Module) -> None:
        if mutant.operator != NO_CHANGE:
            find_places(tree)[mutant.ordinal].replace(mutant.operator)

    sys.meta_path.insert(0, Changing([mutant.module], change))
    for names in filter(None, rounds):
        if pytest.main([*PYTEST, "-x", *names]) != 0:
            return 1
    return 0


def run_forked(
    task: Callable[[Key], int], keys: Iterable[Key], workers: int
) -> Iterator[tuple[Key, int]]:
    """Run a task for each key in a process of its own; yield its status as it ends."""
    waiting = list(keys)
    running: dict[int, tuple[Key, Path]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            key, folder = waiting.pop(0), Path(tempfile.mkdtemp())
            running[_fork(task, key, folder)] = key, folder
        pid, status = os.wait()
        key, folder = running.pop(pid)
        shutil.rmtree(folder, ignore_errors=True)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == FAULTY:
            sys.exit(f"{key} could not be tried")
        yield key, status


def _fork(task: Callable[[Key], int], key: Key, folder: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = FAULTY
    try:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        with (folder / "output").open("w") as output:
            os.dup2(output.fileno(), 1)
        status = task(key)
    except BaseException:  # noqa: BLE001 - this process ends here
        traceback.print_exc()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
