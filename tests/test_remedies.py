"""What a remedy asks for: nothing that was in force, and only commands that exist."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
import pytest
from tests.support.traces import blueprint, nsight

import stepscope
from stepscope import remedies
from stepscope.analysis.results.fitting_remedies import with_fitting_remedies
from stepscope.analysis.tools import TOOLS
from stepscope.cli.main import main
from stepscope.derive.frameworks import frameworks_used
from stepscope.derive.host.tracers import tracers
from stepscope.remedies import Remedy, Tracers, fit_remedy
from stepscope.session import open_profile
from stepscope.trace.schema import read_rows
from stepscope.unavailable import Missing, Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from stepscope.derive.profile_data import ProfileData

SOURCE = Path(stepscope.__file__).parent
TABLE = remedies._TABLE.remedies
#: Those that ask for tracers.
DECLARED = [one for one in Remedy if TABLE[one.name].tracers]
#: Words of a remedy that asks for a tracer or for another version.
ASKS = re.compile(
    r"(?i)tracer level|python tracer|_tracer_level|newer (?:version|release)"
)
#: Said where the reader of the file has seen the level, or for less of it.
BESIDE_THE_LEVEL = {
    "Record with host_tracer_level 2 to see the host.",
    "Record with device_tracer_level 1.",
    "Record fewer steps, or at a lower tracer level.",
}
ALL_ON = Tracers(host=3, device=1, python=1)
FRAMEWORKS = ("TensorFlow", "JAX", "PyTorch", "Python")


def words_for(
    remedy: Remedy, tracers: Tracers, frameworks: Collection[str] = ()
) -> str:
    return fit_remedy(remedy, tracers, frameworks).words


# ------------------------------------------------------------------- the table


def test_the_table_has_words_for_each_id_and_no_others() -> None:
    assert TABLE.keys() == {one.name for one in Remedy}
    assert {name for row in TABLE.values() for name in row.frameworks} == {*FRAMEWORKS}
    for row in TABLE.values():
        assert ("{tracers}" in row.words) == bool(row.tracers)
        assert bool(row.tracers) == (row.in_force is not None)
        assert row.kineto is None or row.tracers


def test_each_remedy_is_used() -> None:
    used = {
        name
        for path in SOURCE.rglob("*.py")
        for name in re.findall(r"\bRemedy\.([A-Z][A-Z_]+)", path.read_text("utf-8"))
    }
    declared = {
        name
        for path in SOURCE.rglob("*.toml")
        for name in re.findall(
            r'(?m)^(?:remedy|text) = "([A-Z_]+)"$', path.read_text("utf-8")
        )
    }
    of_reasons = {
        remedy
        for path in (*SOURCE.rglob("reasons.md"), *SOURCE.rglob("notes.md"))
        for *_, remedy in read_rows(path.read_text("utf-8"))
        if remedy.isupper()
    }
    assert used | declared | of_reasons == TABLE.keys()


def rewritten(words: str) -> str:
    """Another sentence; what stands for an id, or for tracers, is no part of it."""
    if words in TABLE or words == "in_force":
        return words
    return words.upper().replace("{TRACERS}", "{tracers}")


@pytest.fixture
def other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewrite every sentence of the table."""
    table = msgspec.to_builtins(remedies._TABLE)
    for row in table["tracers"].values():
        row |= {key: rewritten(row[key]) for key in ("words", "kineto", "nsight")}
    for row in table["remedies"].values():
        for key in ("words", "in_force", "kineto", "nsight"):
            if row[key] is not None:
                row[key] = rewritten(row[key])
        for name, words in row["frameworks"].items():
            row["frameworks"][name] = (
                rewritten(words)
                if isinstance(words, str)
                else {key: one and rewritten(one) for key, one in words.items()}
            )
    other = msgspec.convert(table, remedies._RemedyTable)
    monkeypatch.setattr(remedies, "_TABLE", other)


ALL_RECORDINGS = [
    Tracers(host=host, device=one, python=one, recorder=recorder)
    for recorder in (None, "kineto", "nsight")
    for host in (None, 1, 2, 3)
    for one in (None, 0, 1)
]


def all_fitting() -> list[remedies.FittingRemedy]:
    return [
        fit_remedy(remedy, recording, frameworks)
        for remedy in Remedy
        for recording in ALL_RECORDINGS
        for frameworks in [(), FRAMEWORKS, *((name,) for name in FRAMEWORKS)]
    ]


DECIDED = all_fitting()


@pytest.mark.usefixtures("other_words")
def test_what_is_asked_for_does_not_depend_on_how_it_is_said() -> None:
    for before, after in zip(DECIDED, all_fitting(), strict=True):
        assert after.words != before.words
        assert after.words.upper() == before.words.upper()
        assert after.asks_nothing == before.asks_nothing


def remedies_of_tools(path: Path) -> list[str]:
    profile = open_profile(path)
    reasons: list[Unavailable | Missing] = []
    for tool in TOOLS:
        answer = profile.tool(tool.name)
        if isinstance(answer, Unavailable):
            reasons.append(answer)
        else:
            reasons += getattr(answer, "missing", ())
    return [why.remedy for why in reasons]


@pytest.mark.slow(seconds=0.5)
@pytest.mark.parametrize("recorder", ["kineto", "nsight"])
def test_tools_give_the_same_remedies_in_other_words(
    repository: Path, tmp_path: Path, recorder: str, request: pytest.FixtureRequest
) -> None:
    kernels = [nsight.kernel("gemm", at + 9, at + 30, at) for at in (1, 50)]
    path = (
        nsight.write(tmp_path / "a.sqlite", {nsight.KERNEL: kernels})
        if recorder == "nsight"
        else repository / "tests" / "data" / "torch_cpu"
    )
    before = remedies_of_tools(path)
    request.getfixturevalue("other_words")
    after = remedies_of_tools(path)
    assert before != after
    assert [one.upper() for one in before] == [one.upper() for one in after]


# ------------------------------------------------------------ what was in force


@pytest.mark.parametrize("remedy", DECLARED)
def test_with_every_tracer_in_force_none_is_asked_for(remedy: Remedy) -> None:
    otherwise = words_for(remedy, ALL_ON)
    assert otherwise != remedy
    assert not ASKS.search(otherwise)
    assert otherwise.endswith((".", ")."))


@pytest.mark.parametrize("remedy", DECLARED)
def test_where_nothing_is_known_all_are_asked_for(remedy: Remedy) -> None:
    assert words_for(remedy, Tracers()) == remedy
    assert "{" not in remedy


@pytest.mark.parametrize("recorder", ["kineto", "nsight"])
@pytest.mark.parametrize("remedy", DECLARED)
def test_other_recorders_are_asked_for_their_own_options(
    remedy: Remedy, recorder: str
) -> None:
    """They know no levels, and no tracers of TensorFlow's."""
    asked = words_for(remedy, Tracers(recorder=recorder))
    assert not re.search(r"tracer|level", asked)
    assert not ASKS.search(asked)
    assert asked.endswith((".", ")."))


def test_a_trace_of_pytorch_is_not_asked_for_what_it_holds() -> None:
    """Ops and kernels show that both activities were recorded; stacks were not."""
    asked = words_for(
        Remedy.RECORD_UNKNOWN_TIME,
        Tracers(host=2, device=1, recorder="kineto"),
    )
    assert asked == "Record again with `with_stack=True`."


def test_only_what_was_lacking_is_asked_for() -> None:
    asked = words_for(Remedy.RECORD_UNKNOWN_TIME, Tracers(host=2, device=1, python=0))
    assert asked == "Record again with the Python tracer."


def test_other_remedies_stay_as_they_are() -> None:
    assert words_for(Remedy.COPY_AGAIN, ALL_ON) == Remedy.COPY_AGAIN
    assert words_for(Remedy.COPY_AGAIN, NSIGHT) == Remedy.COPY_AGAIN


# ---------------------------------------------------- recordings of Nsight Systems


NSIGHT = Tracers(recorder="nsight")
#: What Nsight Systems has not.
OF_FRAMEWORKS = re.compile(
    r"(?i)tracer[_ ]level|the (?:host|device|python) tracer|host level|step_num="
    r"|samples of functions"
)


@pytest.mark.parametrize("remedy", DECLARED)
def test_of_nsight_systems_no_tracer_is_asked_for(remedy: Remedy) -> None:
    assert not OF_FRAMEWORKS.search(words_for(remedy, NSIGHT))


def test_its_own_sentence_stands_although_device_and_functions_were_recorded() -> None:
    """What was on does not tell that the ranges of a framework were."""
    recorded = Tracers(host=2, device=1, python=1, recorder="nsight")
    said = words_for(Remedy.RECORD_KERNEL_OPS, recorded)
    assert "emit_nvtx" in said
    said = words_for(Remedy.RECORD_LINES, recorded)
    assert "jit" not in said


def test_the_rest_of_a_remedy_stays() -> None:
    assert words_for(Remedy.RECORD_DEVICE_UNLESS_MEANT, NSIGHT) == (
        "Nothing to do if this is intended; otherwise record with `nsys profile "
        "--trace=cuda,nvtx`."
    )


def test_no_answer_about_a_database_asks_for_a_tracer(tmp_path: Path) -> None:
    """The database has kernels without steps, ops, memory or functions."""
    calls = [nsight.call("cudaLaunchKernel_v7000", at, at + 5, at) for at in (1, 50)]
    kernels = [nsight.kernel("gemm", at + 9, at + 30, at) for at in (1, 50)]
    tables = {nsight.RUNTIME: calls, nsight.KERNEL: kernels}
    profile = open_profile(nsight.write(tmp_path / "a.sqlite", tables))
    found = [
        answer if isinstance(answer, Unavailable) else getattr(answer, "missing", ())
        for answer in (profile.tool(tool.name) for tool in TOOLS)
    ]
    said = re.findall(r"remedy='([^']*)'", str(found))
    assert len(said) > len(TOOLS)
    assert {it for it in said if OF_FRAMEWORKS.search(it)} == set()


def test_remedies_that_ask_for_tracers_are_declared_in_one_place() -> None:
    """Elsewhere no sentence that is written out asks for a tracer or a version."""
    asking = [
        f"{path.relative_to(SOURCE)}:{node.value.lineno}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "Remedy.py"
        for text in [path.read_text(encoding="utf-8")]
        # Most files speak of none of it, and parsing takes long.
        if re.search("remedy *=", text) and re.search("(?i)tracer|newer", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.keyword) and node.arg == "remedy"
        for text in texts_in(node.value)
        if ASKS.search(text) and text not in BESIDE_THE_LEVEL
    ]
    asking += [
        f"{path.relative_to(SOURCE)}: {text}"
        for path in (*SOURCE.rglob("reasons.md"), *SOURCE.rglob("notes.md"))
        for *_, text in read_rows(path.read_text(encoding="utf-8"))
        if ASKS.search(text) and text not in BESIDE_THE_LEVEL
    ]
    assert asking == []


def profile(*, host: int, python: int) -> ProfileData:
    trace = blueprint.trace([("main", "a/MatMul:MatMul", 0, 5)])
    environment = trace.table("environment")
    assert not isinstance(environment, Unavailable)
    levels = environment.with_columns(
        host_tracer_level=host, device_tracer_level=1, python_tracer_level=python
    )
    return blueprint.profile(
        blueprint.substitute(trace, environment=levels.cast(environment.schema))
    )


def test_answers_are_told_beside_the_tracers_of_the_recording() -> None:
    why = Unavailable(code="HOST_LEVEL", reason="none.", remedy=Remedy.RECORD_FRAMES)
    without = with_fitting_remedies(profile(host=2, python=0), why)
    assert without.remedy == Remedy.RECORD_FRAMES
    beside = with_fitting_remedies(profile(host=2, python=1), why)
    assert (beside.code, ASKS.search(beside.remedy)) == ("HOST_LEVEL", None)


def test_frames_show_that_the_python_tracer_ran_where_no_level_is_recorded() -> None:
    trace = blueprint.trace([("main", "$loop.py:3 step", 0, 5)])
    found = blueprint.profile(trace).derived(trace.host, tracers)
    assert isinstance(found, Tracers)
    assert (found.host, found.device, found.python) == (None, None, 1)


def test_work_of_devices_shows_that_their_tracer_ran() -> None:
    nowhere = Unavailable(code="NOT_RECORDED", reason="none.", remedy="")
    trace = blueprint.a1().without("environment", nowhere)
    found = blueprint.profile(trace).derived(trace.host, tracers)
    assert isinstance(found, Tracers)
    assert (found.host, found.device) == (None, 1)


# ------------------------------------------------------------- commands that exist


def texts_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def commands() -> Iterator[tuple[str, list[str]]]:
    """Commands of ours in all texts but docstrings, each with its words."""
    names = "run|show|report|serve|demo|doctor|capture|explain|diff|nsys|ncu"
    ours = re.compile(rf"(?<![\w/.-])stepscope ((?:{names})\b[^`'\"\n]*)")
    # A text may be written in several parts; most files hold none, and are not parsed.
    in_source = re.compile(rf"stepscope[\s\"'rf]+(?:{names})\b")
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not in_source.search(text):
            continue
        tree = ast.parse(text)
        prose = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in prose:
                continue
            if not isinstance(node.value, str):
                continue
            for found in ours.finditer(node.value):
                place = f"{path.relative_to(SOURCE)}:{node.lineno}"
                yield place, shlex.split(found[1], comments=False)


PRINTED = list(commands())


@pytest.mark.parametrize(("place", "words"), PRINTED)
def test_every_command_that_is_printed_exists_with_its_options(
    place: str, words: list[str]
) -> None:
    assert isinstance(main, click.Group)
    context = click.Context(main)
    command = main.get_command(context, words[0])
    assert command is not None, place
    known = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts, "--help")
    }
    # What comes after `--` is the command line of another program.
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    asked = {word.split("=")[0].rstrip(".,;:)") for word in own if word.startswith("-")}
    assert asked - known == set(), place


def test_commands_are_found() -> None:
    assert len(PRINTED) > 8


@pytest.mark.parametrize("framework", ["TensorFlow", "JAX", "PyTorch"])
@pytest.mark.parametrize("tracers", [Tracers(), ALL_ON])
@pytest.mark.parametrize("remedy", [Remedy.RECORD_ALLOCATIONS, Remedy.RECORD_SHAPES])
def test_a_program_of_one_framework_hears_of_no_other(
    remedy: Remedy, tracers: Tracers, framework: str
) -> None:
    told = words_for(remedy, tracers, [framework])
    others = {"TensorFlow", "JAX", "PyTorch", "tf.data"} - {framework}
    assert not [name for name in others if name in told]
    assert words_for(remedy, Tracers(), ["TensorFlow", "JAX"]) == remedy


def test_a_program_of_one_framework_is_not_asked_for_what_was_in_force() -> None:
    """TensorFlow's own sentence asked for host tracer level 2 where it had been on."""
    for remedy in (
        Remedy.RECORD_ALLOCATIONS,
        Remedy.RECORD_PIPELINE,
    ):
        assert not ASKS.search(words_for(remedy, ALL_ON, ["TensorFlow"]))
        assert ASKS.search(words_for(remedy, Tracers(host=1), ["TensorFlow"]))


#: What only programs of these frameworks have.
OF = {
    "PyTorch": ("PyTorch", "DataLoader", "profile_memory", "torch"),
    "JAX": ("JAX", "jax"),
    "TensorFlow": ("TensorFlow", "tf."),
}


@pytest.mark.parametrize("name", ["torch_cpu", "tf_keras_fit", "jax_marked"])
def test_no_tool_asks_for_what_another_framework_has(
    repository: Path, name: str
) -> None:
    """Tools asked programs of PyTorch for tf.data and for JAX's memory profile."""
    profile = open_profile(repository / "tests" / "data" / name)
    (framework,) = profile.of_run(frameworks_used)
    others = [word for it, words in OF.items() if it != framework for word in words]
    found = [
        answer if isinstance(answer, Unavailable) else getattr(answer, "missing", ())
        for answer in (profile.tool(tool.name) for tool in TOOLS)
    ]
    said = set(re.findall(r"remedy='([^']*)'", str(found)))
    assert said
    assert [it for it in said if any(word in it for word in others)] == []


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        (19, Remedy.LONGER_FOR_LOOKS),
        (20, Remedy.ANNOTATE_UNKNOWN_TIME),
    ],
)
def test_few_looks_at_the_program_ask_for_a_longer_recording(
    looks: int, said: str
) -> None:
    """At 100 a second, each stands for 10 ms."""
    name = "$/app/train.py:4 work"
    samples = ("samples of main, 100 a second", name, 0, 10_000.0 * looks)
    trace = blueprint.trace([("main", "a/MatMul:MatMul", 0, 5), samples])
    why = Unavailable(code="X", reason="none.", remedy=Remedy.RECORD_UNKNOWN_TIME)
    assert with_fitting_remedies(blueprint.profile(trace), why).remedy == said
