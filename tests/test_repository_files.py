"""Files for people and services around the code: they name what exists, and agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.support.command_lines import check_command_line, shown_commands

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
#: Files that name the version of a release.
VERSIONED = (
    *("CITATION.cff", "README.md", "docs/supported-systems.md", "packaging/Dockerfile"),
    *("packaging/conda/recipe.yaml", ".github/workflows/dist.yml"),
    "examples/cluster/kubernetes_report.yaml",
)
#: A version of stepscope, after its name or as a declared value.
VERSION = re.compile(
    r"(?:stepscope[-:]|(?<![\w-])(?i:version)(?:: |=)\"?)(\d+\.\d+\.\d+)"
)
#: A path of the repository in a command; `dist` and `build` are made.
PATH = re.compile(
    r"(?:(?<![\w/.-])|(?<=\{project\}/))((?:packaging|tests|docs|examples|build_tools)/[\w./-]+)"
)
#: What GitHub's issue forms may have, by kind of element.
ATTRIBUTES = {
    "markdown": {"value"},
    "textarea": {"label", "description", "placeholder", "value", "render"},
    "input": {"label", "description", "placeholder", "value"},
    "dropdown": {"label", "description", "multiple", "options", "default"},
    "checkboxes": {"label", "description", "options"},
}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def loaded(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = loaded(workflow)["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("name", VERSIONED)
def test_each_file_names_the_version_of_the_project(name: str) -> None:
    assert set(VERSION.findall(read(name))) == {PROJECT["version"]}


def test_a_readme_is_read_to_its_end() -> None:
    lines = read("README.md").splitlines()
    assert len(lines) <= 150
    screen = "\n".join(lines[:40])
    for wanted in (
        *("Why is my training step slow", "pip install", "stepscope run --"),
        *("stepscope try --", "promised", "Lightning", "offline"),
    ):
        assert wanted in screen, wanted


def test_a_citation_says_what_is_cited() -> None:
    citation = loaded(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["license"] == PROJECT["license"]
    assert all("name" in author for author in citation["authors"])


def changes() -> dict[str, str]:
    """Heading of each release → its text."""
    parts = re.split(r"^## (.*)\n", read("CHANGELOG.md"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_changelog_begins_with_this_release() -> None:
    versions = [heading.split()[0] for heading in changes()]
    assert versions[0] == PROJECT["version"]
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert numbers == sorted(numbers, reverse=True)


def test_a_sentence_of_the_changelog_has_two_lines_at_most() -> None:
    bullets = [
        " ".join(part.split())
        for text in changes().values()
        for part in re.split(r"\n(?=- )|\n\n", text)
        if part.startswith("- ")
    ]
    sentences = [one for it in bullets for one in re.split(r"(?<=\.) ", it)]
    assert len(sentences) > 60
    assert [one for one in sentences if len(one) > 2 * 98] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_the_repository_has(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    commands = [step["run"] for step in steps_of(path) if "run" in step]
    text = path.read_text(encoding="utf-8")
    made = {name for line in commands for name in make_targets(line)}
    assert made
    assert made - targets == set()
    named = PATH.findall(text)
    assert [name for name in named if not (ROOT / name).exists()] == []
    for arguments in shown_commands(text):
        check_command_line(arguments)


def make_targets(command: str) -> list[str]:
    return command.split()[1:] if command.startswith("make ") else []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_what_github_asks_for(path: Path) -> None:
    workflow = loaded(path)
    # YAML 1.1 reads the key `on` as true.
    assert workflow.keys() == {"name", True, "permissions", "jobs"}
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    for job in jobs.values():
        assert "runs-on" in job
        assert job["timeout-minutes"] <= 120
        assert set([job["needs"]] if "needs" in job else []) <= jobs.keys()
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            # An action is fixed to a version.
            assert re.fullmatch(r"[\w-]+/[\w-]+@v[\d.]+", step.get("uses", "a/b@v1"))


def test_the_workflows_run_the_tests_on_all_pythons_and_systems() -> None:
    made = {
        target
        for path in WORKFLOWS
        for step in steps_of(path)
        for target in make_targets(step.get("run", ""))
    }
    assert made >= {
        *("check", "test", "test-integrations", "test-oldest", "test-python"),
        *("dist", "docs"),
    }
    jobs = loaded(ROOT / ".github/workflows/dist.yml")["jobs"]
    systems = {
        name.split("-")[0] for name in jobs["elsewhere"]["strategy"]["matrix"]["system"]
    }
    assert systems == {"ubuntu", "macos", "windows"}
    versions = re.findall(r"cp3(\d+)-", read(".github/workflows/dist.yml"))
    least = re.fullmatch(r">=3\.(\d+)", PROJECT["requires-python"])
    assert least is not None
    assert min(map(int, versions)) == int(least[1])


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_can_be_shown(path: Path) -> None:
    form = loaded(path)
    assert {"name", "description", "body"} <= form.keys()
    named = [element["id"] for element in form["body"] if "id" in element]
    assert len(named) == len(set(named)) >= 2
    for element in form["body"]:
        kind, attributes = element["type"], element["attributes"]
        assert attributes.keys() <= ATTRIBUTES[kind]
        assert ("value" if kind == "markdown" else "label") in attributes
        assert element.get("validations", {}).keys() <= {"required"}
    assert any(element.get("validations") for element in form["body"])


def test_forms_ask_for_commands_that_exist() -> None:
    asked = [it for path in FORMS for it in shown_commands(path.read_text("utf-8"))]
    for arguments in asked:
        check_command_line(arguments)
    assert [it for it in asked if len(it) == 1] == [["doctor"], ["--version"]]
    assert ["report", "LOGDIR", "--format", "json"] in asked


def test_a_command_that_is_not_understood_is_seen() -> None:
    assert shown_commands(
        "run: a\n  exec stepscope show x\n`stepscope run -- a b`"
    ) == [
        ["show", "x"],
        ["run", "--", "a", "b"],
    ]
    with pytest.raises(click.UsageError):
        check_command_line(["report", "LOGDIR", "--loud"])


def test_the_conda_package_needs_what_the_project_needs() -> None:
    recipe = loaded(ROOT / "packaging/conda/recipe.yaml")
    needed = [one.replace(" ", "") for one in recipe["requirements"]["run"]]
    declared = [f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]]
    assert sorted(needed) == sorted(declared)
    assert recipe["about"]["license_file"] == PROJECT["license-files"]
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    built = tomllib.loads(read("pyproject.toml"))["build-system"]["requires"]
    host = {one.replace(" ", "").lower() for one in recipe["requirements"]["host"]}
    assert {one.lower() for one in built} <= host


def test_the_image_has_one_wheel_and_no_rights() -> None:
    lines = re.sub(r"\\\n", "", read("packaging/Dockerfile")).splitlines()
    told = [line.split(maxsplit=1) for line in lines if line and line[0] != "#"]
    kinds = [kind for kind, _ in told]
    known = {"ARG", "COPY", "ENTRYPOINT", "ENV", "FROM", "RUN", "USER", "WORKDIR"}
    assert set(kinds) <= known
    # The last stage has nothing of what installs, and ends with the command.
    bases = [rest.split()[0] for kind, rest in told if kind == "FROM"]
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert not bases[0].endswith(("latest", ":python"))
    last = told[len(kinds) - 1 - kinds[::-1].index("FROM") :]
    assert [rest for kind, rest in last if kind == "USER"] == ["1000"]
    assert last[-1] == ["ENTRYPOINT", '["stepscope"]']
    # What is copied from here is what .dockerignore lets through.
    copied = [rest.split()[0] for kind, rest in told if kind == "COPY"]
    assert copied[0] == "dist/*.whl"
    assert copied[1:] == ["--from=installed"]
    let_through = [
        line for line in read(".dockerignore").splitlines() if line[0] == "!"
    ]
    assert let_through == ["!dist", "!dist/*.whl"]
