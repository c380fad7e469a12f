"""A shell completes the command line: as Click is asked, and in the shells at hand."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from stepscope.advice.registry import RULES
from stepscope.analysis.tools import TOOLS
from stepscope.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

needs_bash = pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
needs_zsh = pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
needs_fish = pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")


def completed(line: str, shell: str = "bash") -> list[str]:
    """What the script of a shell is answered about the last word of a line."""
    words = line.split(" ")
    done = CliRunner().invoke(
        main,
        [],
        prog_name="stepscope",
        env={
            "_STEPSCOPE_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
    )
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.splitlines()


def plain(line: str) -> list[str]:
    """The words that are offered."""
    kinds, _, words = zip(*(one.partition(",") for one in completed(line)), strict=True)
    assert set(kinds) == {"plain"}
    return list(words)


def test_commands_tools_and_rules_are_offered() -> None:
    assert plain("stepscope ") == [command.name for command in COMMANDS]
    assert plain("stepscope show ") == [tool.name for tool in TOOLS]
    assert set(plain("stepscope try ")) == {rule.item.id for rule in RULES}
    assert set(plain("stepscope report --explain ")) == {rule.item.id for rule in RULES}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("stepscope re", ["report"]),
        ("stepscope show over", ["overview_page"]),
        ("stepscope try input.b", ["input.bound"]),
        ("stepscope report --format ", ["text", "json", "markdown", "html"]),
        ("stepscope report --fail-on c", ["critical"]),
        ("stepscope show kernel_stats x --format p", ["parquet", "pprof"]),
        ("stepscope capture --format j", ["json"]),
        ("stepscope show model_views x --order-by mi", ["micros"]),
        ("stepscope completion ", ["bash", "zsh", "fish"]),
        ("stepscope report --kern", ["--kernels"]),
        ("stepscope --ver", ["--version"]),
    ],
)
def test_what_begins_so_is_offered(line: str, words: list[str]) -> None:
    assert plain(line) == words


@pytest.mark.parametrize(
    "line",
    [
        "stepscope report lo",
        "stepscope show kernel_stats lo",
        "stepscope report -o lo",
        "stepscope run lo",
        "stepscope run -- lo",
        "stepscope try -- lo",
        "stepscope try input.bound -- lo",
        "stepscope doctor lo",
        "stepscope serve lo",
    ],
)
def test_files_are_left_to_the_shell(line: str) -> None:
    assert completed(line) == ["file,lo"]


@pytest.mark.parametrize("line", ["stepscope no-command x", "stepscope demo "])
def test_where_nothing_is_known_nothing_is_said(line: str) -> None:
    assert "".join(completed(line)) == ""


def test_the_version_is_not_printed_into_the_words() -> None:
    assert plain("stepscope --version repo") == ["report"]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs of a log directory in the current folder, newest first."""
    names = ["2026_11_20_10_00_00", "2026_11_21_09_00_00"]
    for name in names:
        (tmp_path / "logs/plugins/profile" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return [f"logs/plugins/profile/{name}" for name in reversed(names)]


@pytest.mark.parametrize("before", ["report ", "report x --against ", "diff "])
def test_a_log_directory_is_completed_by_its_runs(logs: list[str], before: str) -> None:
    assert plain(f"stepscope {before}logs/") == logs
    assert completed(f"stepscope {before}{logs[0]}") == [f"file,{logs[0]}"]


def test_zsh_and_fish_are_told_what_a_word_means() -> None:
    title = next(rule.item.title for rule in RULES if rule.item.id == "input.bound")
    said = completed("stepscope try input.b", "zsh")
    assert said == ["plain", "input.bound", title]
    words = {"COMP_WORDS": "stepscope try input.b", "COMP_CWORD": "input.b"}
    done = CliRunner().invoke(
        main,
        [],
        prog_name="stepscope",
        env={"_STEPSCOPE_COMPLETE": "fish_complete", **words},
    )
    assert done.stdout.splitlines() == [f"plain,input.bound\t{title}"]


@pytest.fixture
def shell_path(tmp_path: Path) -> dict[str, str]:
    """The environment in which a shell finds the command `stepscope`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "stepscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stepscope "$@"\n')
    command.chmod(0o755)
    settings = tmp_path / "inputrc"
    settings.write_text("set enable-bracketed-paste off\n")
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "INPUTRC": str(settings),
        "TERM": "dumb",
        "PS1": "",
        "HISTFILE": os.devnull,
    }


#: Shell → how it starts without the files of its user, and reads the script.
STARTED = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
#: By default zsh takes the key for a letter if more input waits.
READS = {
    "bash": 'eval "$(stepscope completion bash)"',
    "zsh": (
        "autoload -Uz compinit; compinit -u -D; PS1=; "
        "zstyle ':completion:*' insert-tab false; eval \"$(stepscope completion zsh)\""
    ),
}


class Shell:
    """An interactive shell on a terminal, which has read the script."""

    def __init__(self, name: str, environment: dict[str, str]) -> None:
        self._ours, terminal = pty.openpty()
        self._process = subprocess.Popen(
            STARTED[name],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            start_new_session=True,
        )
        os.close(terminal)
        self._answer(f'{READS[name]}; echo "DONE:"\n')

    def line_after_tab(self, line: str) -> str:
        """The line that the key Tab makes of a line."""
        # The completed line is printed, not executed. zsh removes a slash at its end.
        return self._answer(f"{line}\t\x01echo DONE:\n").strip().rstrip("/")

    def end(self) -> None:
        os.close(self._ours)
        self._process.kill()
        self._process.wait()

    def _answer(self, typed: str) -> str:
        os.write(self._ours, typed.encode())
        shown = ""
        while not (found := re.search(r"(?:^|\n)DONE:(.*)\r\n", shown)):
            shown += os.read(self._ours, 65536).decode()
        return found[1]


@pytest.fixture
def shell(
    request: pytest.FixtureRequest, shell_path: dict[str, str]
) -> Iterator[Shell]:
    started = Shell(request.param, shell_path)
    yield started
    started.end()


@pytest.mark.parametrize(
    "shell",
    [pytest.param("bash", marks=needs_bash), pytest.param("zsh", marks=needs_zsh)],
    indirect=True,
)
@pytest.mark.slow(seconds=2)
def test_the_tab_key_completes(logs: list[str], shell: Shell) -> None:
    for typed, made in {
        "stepscope expl": "stepscope explain",
        "stepscope show over": "stepscope show overview_page",
        "stepscope try input.b": "stepscope try input.bound",
        "stepscope report --format mark": "stepscope report --format markdown",
        "stepscope report lo": "stepscope report logs",
        "stepscope report logs/": "stepscope report logs/plugins/profile/2026_11_2",
        "stepscope no-command x": "stepscope no-command x",
    }.items():
        assert shell.line_after_tab(typed) == made
    assert logs[0].startswith("logs/plugins/profile/2026_11_2")


def script_of(shell: str, folder: Path) -> Path:
    done = CliRunner().invoke(main, ["completion", shell])
    assert (done.exit_code, done.stderr) == (0, "")
    file = folder / f"stepscope.{shell}"
    file.write_text(done.stdout)
    return file


@pytest.mark.parametrize(
    ("shell", "check"),
    [
        pytest.param("bash", ["bash", "-n"], marks=needs_bash),
        pytest.param("zsh", ["zsh", "-n"], marks=needs_zsh),
        pytest.param("fish", ["fish", "--no-execute"], marks=needs_fish),
    ],
)
def test_a_shell_can_read_its_script(
    tmp_path: Path, shell: str, check: list[str]
) -> None:
    script = script_of(shell, tmp_path)
    done = subprocess.run([*check, script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("shell", "registers"),
    [
        ("bash", "complete -o nosort -F _stepscope_completion stepscope"),
        ("zsh", "compdef _stepscope_completion stepscope"),
        ("fish", "complete --no-files --command stepscope"),
    ],
)
def test_the_script_asks_stepscope(tmp_path: Path, shell: str, registers: str) -> None:
    script = script_of(shell, tmp_path).read_text(encoding="utf-8")
    assert registers in script
    assert f"_STEPSCOPE_COMPLETE={shell}_complete" in script


@needs_fish
@pytest.mark.slow
def test_fish_completes(tmp_path: Path, shell_path: dict[str, str]) -> None:
    asked = f'source {script_of("fish", tmp_path)}; complete -C "stepscope show over"'
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env=shell_path,
    )
    assert done.stdout.split() == ["overview_page"]
