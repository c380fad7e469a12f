"""The command line as a contract: commands, options, exit statuses, errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stepscope.capture.base.options import MIN_WINDOW_S
from stepscope.cli import options
from stepscope.cli.main import COMMANDS, main
from stepscope.cli.requests import DEFAULT_STEPS

if TYPE_CHECKING:
    import click

SURFACE = {
    "run": {
        "command",
        "--logdir",
        "--skip-steps",
        "--steps",
        "--max-s",
        "--max-slowdown",
        "--wait-s",
        "--record-s",
        "--host-tracer-level",
        "--python-sampling-hz",
        "--python-tracer-level",
        "--device-tracer-level",
        "--record-shapes",
        "--profile-memory",
        "--no-report",
        "--open",
        "--certificate",
        "--key",
        "--serve",
    },
    "capture": {
        "addresses",
        "--attach",
        "--ms",
        "--steps",
        "--delay-ms",
        "--attempts",
        "--logdir",
        "--host-tracer-level",
        "--python-tracer-level",
        "--device-tracer-level",
        "--token",
        "--max-bytes",
        "--certificate",
        "--allow-partial",
        "--format",
        "--no-report",
    },
    "nsys": {
        "command",
        "--range",
        "--profiler-api",
        "--delay-s",
        "--duration-s",
        "-o",
        "--output",
        "--force",
        "--no-report",
    },
    "ncu": {
        "command",
        "--beside",
        "--op",
        "--kernel",
        "--range",
        "--profiler-api",
        "--skip",
        "--count",
        "--set",
        "-o",
        "--output",
        "--force",
    },
    "report": {
        "paths",
        "--against",
        "--same-work",
        "--synthetic",
        "--store",
        "--explain",
        "--full",
        "--fail-on",
        "--redact",
        "--redact-map",
        "--format",
        "--kernels",
        "-o",
        "--output",
        "--force",
    },
    "try": {
        "rule",
        "--budget",
        "--allow-numerics",
        "--store",
        "--logdir",
        "--format",
        "-o",
        "--output",
        "--force",
    },
    "show": {
        "tool",
        "paths",
        "--host",
        "--compat",
        "--format",
        "--table",
        "--schema-line",
        "--marker",
        "--exclude-flags",
        "--parameters",
        "--bandwidth-gib-per-s",
        "--op",
        "--scope",
        "--include-idle",
        "--most-calls",
        "--peak-tflops",
        "--peak-gb-per-s",
        "--memory",
        "--points",
        "--at-ms",
        "--pipeline",
        "--rank",
        "--name",
        "--view",
        "--preset",
        "--step",
        "--step-name",
        "--last-steps",
        "--max-depth",
        "--min-micros",
        "--min-accelerator-micros",
        "--min-cpu-micros",
        "--min-bytes",
        "--min-params",
        "--min-float-ops",
        "--min-occurrence",
        "--account-type-regexes",
        "--start-name-regexes",
        "--trim-name-regexes",
        "--show-name-regexes",
        "--hide-name-regexes",
        "--order-by",
        "--select",
        "--account-displayed-op-only",
        "--show-trainable-variables",
        "--kernels",
        "-o",
        "--output",
        "--force",
    },
    "explain": {
        "paths",
        "--at",
        "--from",
        "--to",
        "--host",
        "--device",
        "--format",
        "-o",
        "--output",
        "--force",
    },
    "diff": {
        "base",
        "new",
        "--same-work",
        "--format",
        "-o",
        "--output",
        "--force",
    },
    "serve": {
        "logdir",
        "--host",
        "--port",
        "--kernels",
        "--source",
        "--capture",
        "--capture-token",
    },
    "doctor": {"path", "--logdir", "--format"},
    "demo": set(),
    "completion": {"shell"},
}


def command(name: str) -> click.Command:
    found = main.get_command(None, name)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_no_command_or_option_comes_or_goes_unnoticed() -> None:
    found = {
        entry.name: {
            name
            for parameter in command(entry.name).params
            for name in (
                parameter.opts
                if parameter.param_type_name == "option"
                else [parameter.name]
            )
        }
        for entry in COMMANDS
    }
    assert found == SURFACE


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stepscope", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_help_lists_every_command_with_its_line() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(entry.name in result.output for entry in COMMANDS)
    said = " ".join(result.output.split())
    assert all(entry.help in said for entry in COMMANDS)


def test_no_arguments_are_a_question_for_help() -> None:
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, result.output.split()[0]) == (0, "Usage:")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("repport", "x"), "known: run, capture, nsys, ncu, "),
        (("run",), "nothing to run"),
        (("run", "{folder}/no.py"), "no such file"),
        (("run", "no-such-command"), "no-such-command"),
        (("run", "--skip-step", "3", "--", "x.py"), "no option --skip-step"),
        (("run", "--steps", "0", "--", "{file}"), "--steps 0"),
        (("run", "--host-tracer-level", "7", "--", "{file}"), "host_tracer_level"),
        (("run", "--", "{file}"), "{file}"),
        (("report",), "PATH"),
        (("completion", "ksh"), "fish"),
        (("try",), "nothing to try"),
        (("try", "input.bond", "--", "{file}"), "input.bound"),
        (("try", "--budget", "10", "--", "{file}"), "--budget 10"),
        (("try", "--format", "pdf", "--", "{file}"), "known: text, json"),
        (("try", "--", "{folder}/no.py"), "no such file"),
        (("report", "--format", "pdf", "x"), "known: text, json"),
        (("report", "--fromat", "x"), "--fromat"),
        (("report", "{folder}/nothing"), "nothing"),
        (("report", "{folder}"), "{folder}"),
        (("report", "{file}"), "{file}"),
        (("show", "kernal_stats", "x"), "kernel_stats"),
        (("show", "pod_veiwer", "x"), "pod_viewer (pod)"),
        (("show", "kernels", "x", "--format", "xml"), "parquet"),
        (("show", "kernels", "x", "--format", "parquet"), "-o FILE"),
        (("show", "kernels", "x", "--schema-line"), "--format csv"),
        (("show", "kernels", "x", "--include-idle"), "--include-idle"),
        (("show", "model", "x", "--format", "pprof"), "-o FILE"),
        (("show", "kernels", "x", "--format", "pprof", "-o", "k"), "model_views"),
        (("show", "kernels", "x", "--max-depth", "2"), "no option --max-depth"),
        (("show", "overview", "x", "--op", "MatMul"), "no option --op"),
        (("show", "kernels", "x", "--marker", "train"), "no option --marker"),
        (("show", "overview", "x", "--parameters", "many"), "'many'"),
        (("show", "memory", "x", "--scope", "model"), "no option --scope"),
        (("show", "ops", "x", "--op", "a", "--scope", "b"), "exclude each other"),
        (("show", "overview", "x", "--compat", "pytorch"), "tensorflow"),
        (("show", "overview", "x", "-o", "{file}"), "--force"),
        (("show", "overview", "x", "-o", "{folder}/no/file"), "{folder}/no"),
        (("show", "overview", "x", "-o", "{folder}"), "is a directory"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_2(
    tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a profile\n", encoding="utf-8")

    def filled(text: str) -> str:
        return text.replace("{folder}", str(tmp_path)).replace("{file}", str(file))

    done = CliRunner().invoke(main, [filled(one) for one in arguments])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("stepscope: ")
    assert filled(expected) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_defect_is_one_line_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nb")

    monkeypatch.setattr("stepscope.cli.report.answer_request", broken)
    monkeypatch.delenv("STEPSCOPE_DEBUG", raising=False)
    result = CliRunner().invoke(main, ["report", "x"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "ZeroDivisionError: a b" in result.stderr
    assert "STEPSCOPE_DEBUG=1" in result.stderr


def test_a_defect_shows_its_traceback_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("stepscope.cli.report.answer_request", broken)
    monkeypatch.setenv("STEPSCOPE_DEBUG", "1")
    result = CliRunner().invoke(main, ["report", "x"])
    assert "Traceback" in result.stderr


def test_an_interruption_is_no_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stepscope.cli.report.answer_request", interrupted)
    result = CliRunner().invoke(main, ["report", "x"])
    assert (result.exit_code, result.stderr.strip()) == (130, "stepscope: interrupted")


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(repository: Path) -> None:
    recorded = str(repository / "tests" / "data" / "tf_keras_fit")
    with subprocess.Popen(
        [sys.executable, "-m", "stepscope", "report", recorded],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_every_declared_option_is_one_of_a_request() -> None:
    declared = json.loads(Path(options.__file__).with_suffix(".json").read_bytes())
    fields = {one.name: one.request.__struct_fields__ for one in COMMANDS}
    for name, rows in declared.items():
        known = fields.get(name) or {field for of in fields.values() for field in of}
        assert set(rows) <= set(known), name


def test_the_help_names_the_steps_and_seconds_that_are_recorded_by_default() -> None:
    shown = f"{DEFAULT_STEPS}, or all steps in {MIN_WINDOW_S:g} s if these are more"
    assert shown in " ".join(CliRunner().invoke(main, ["run", "--help"]).output.split())
