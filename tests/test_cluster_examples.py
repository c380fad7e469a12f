"""Recipes for clusters: their commands record two workers here, as they stand."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.command_lines import check_command_line, shown_commands

import stepscope as ss

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "examples" / "cluster"
#: What `python train.py` is here.
PROGRAM = """
import time
import stepscope as ss
for step in range(150):
    with ss.StepTrace(step):
        time.sleep(0.005)
"""
#: The job's own tools, for a cluster of this machine with two ranks.
TOOLS = {
    "scontrol": "echo node-0; echo node-1",
    "srun": """
    export SLURM_NTASKS=2
    SLURM_PROCID=0 SLURM_LOCALID=0 "$@" & first=$!
    SLURM_PROCID=1 SLURM_LOCALID=1 "$@" & second=$!
    wait $first; status=$?
    wait $second || status=$?
    exit $status
    """,
    "stepscope": f'exec {shlex.quote(sys.executable)} -m stepscope "$@"',
    "python": f'exec {shlex.quote(sys.executable)} "$@"',
}


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """The environment of a job that runs in `tmp_path`, with its tools on the path."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, body in TOOLS.items():
        (tools / name).write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    return {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_NODELIST": "node-[0-1]",
    }


def check_two_ranks(folders: list[Path]) -> None:
    """Two hosts, named after their ranks, with the steps of the program."""
    profile = ss.open(*folders)
    assert [host.rpartition(".")[2] for host in profile.hosts] == ["0", "1"]
    assert len(profile.tool("overview_page").steps) >= 10


def run_slurm_job(
    folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", RECIPES / "slurm.sbatch"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow(seconds=8)
def test_a_slurm_job_reports_on_all_its_ranks(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    done = run_slurm_job(tmp_path, surroundings)
    assert done.returncode == 0, done.stderr
    assert "Where the step time went" in done.stdout
    check_two_ranks(sorted((tmp_path / "stepscope-logs" / "17").iterdir()))


@pytest.mark.slow(seconds=6)
def test_a_slurm_job_ends_as_its_training_does(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    (tmp_path / "train.py").write_text(f"{PROGRAM}\nraise SystemExit(3)\n", "utf-8")
    assert run_slurm_job(tmp_path, surroundings).returncode == 3


def objects_of(name: str) -> dict[str, dict[str, Any]]:
    """Kind and name of each Kubernetes object of a file → the object."""
    text = (RECIPES / name).read_text(encoding="utf-8")
    return {
        f"{one['kind']}/{one['metadata']['name']}": one
        for one in yaml.safe_load_all(text)
    }


def container_of(job: dict[str, Any]) -> dict[str, Any]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_objects_of_a_cluster_refer_to_each_other() -> None:
    objects = objects_of("kubernetes.yaml") | objects_of("kubernetes_report.yaml")
    assert {kind.partition("/")[0] for kind in objects} == {
        *("Service", "PersistentVolumeClaim", "Job"),
    }
    jobs = {name: one for name, one in objects.items() if name.startswith("Job/")}
    for job in jobs.values():
        pod = job["spec"]["template"]["spec"]
        (volume,) = pod["volumes"]
        claim = volume["persistentVolumeClaim"]["claimName"]
        assert f"PersistentVolumeClaim/{claim}" in objects
        (mount,) = container_of(job)["volumeMounts"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], "/logs")
        assert pod["restartPolicy"] == "Never"
    train = jobs["Job/train"]
    environment = {it["name"]: it.get("value") for it in container_of(train)["env"]}
    assert environment["WORLD_SIZE"] == str(train["spec"]["completions"])
    assert train["spec"]["completions"] == train["spec"]["parallelism"]
    service = train["spec"]["template"]["spec"]["subdomain"]
    assert environment["MASTER_ADDR"] == f"train-0.{service}"
    selected = objects[f"Service/{service}"]["spec"]["selector"]
    assert selected == {"batch.kubernetes.io/job-name": "train"}


@pytest.mark.slow(seconds=6)
def test_the_pods_of_a_job_are_reported_as_one_run(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    def run_pod(container: dict[str, Any], rank: int) -> str:
        words = [
            word.replace("$(RANK)", str(rank)).replace("/logs", f"{tmp_path}/logs")
            for word in container["command"]
        ]
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env={**surroundings, "RANK": str(rank), "WORLD_SIZE": "2"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    container = container_of(objects_of("kubernetes.yaml")["Job/train"])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run_pod, [container] * 2, range(2)))
    report = objects_of("kubernetes_report.yaml")["Job/train-report"]
    assert "Where the step time went" in run_pod(container_of(report), 0)
    check_two_ranks([tmp_path / "logs" / f"rank-{rank}" for rank in range(2)])


@pytest.mark.parametrize("path", sorted(RECIPES.iterdir()), ids=lambda path: path.name)
def test_a_recipe_names_commands_and_files_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = [
        word.strip(".")
        for word in text.split()
        if word.startswith(("examples/", "packaging/"))
    ]
    assert [name for name in named if not (ROOT / name).exists()] == []
    for arguments in shown_commands(text):
        check_command_line(arguments)
    if path.suffix == ".sbatch":
        subprocess.run(["bash", "-n", path], check=True)
