"""What the doctor says of machines that are broken, and of the same ones mended."""

from __future__ import annotations

import json
import shlex
import socket
import sys
import sysconfig
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.support.programs.machines import (
    ADMIN,
    PERFMON,
    VERSION,
    Library,
    loads,
    looked,
    with_fields,
    with_file,
    with_packages,
)

import stepscope as ss
from stepscope.cli import doctor
from stepscope.cli.main import main
from stepscope.doctor.check import Check
from stepscope.doctor.machine import Machine


def test_a_healthy_machine_has_no_complaint(healthy: Machine, tmp_path: Path) -> None:
    found = looked(healthy, tmp_path / "logs")
    complaints = {
        name: one.fact for name, one in found.items() if one.state in {"warn", "fail"}
    }
    assert complaints == {}
    assert found["NVIDIA", "kernel driver"].fact == "version 550.54.15"
    assert found["NVIDIA", "CUDA driver"].fact == "CUDA 12.4"
    assert "API version 22" in found["CUPTI", "library"].fact
    assert not (tmp_path / "logs").exists()


def test_tools_are_found_where_their_installers_put_them(
    healthy: Machine, tmp_path: Path
) -> None:
    machine = msgspec.structs.replace(healthy, which=lambda _: None)
    missing = looked(machine, tmp_path / "logs")
    assert {missing["tools", name].state for name in ("nsys", "ncu")} == {"skip"}
    for release in ("2023.4.4", "2024.1.1"):
        path = healthy.root / f"opt/nvidia/nsight-systems/{release}/bin/nsys"
        path.parent.mkdir(parents=True)
        path.write_text("")
    assert looked(machine, tmp_path / "logs")["tools", "nsys"].fact == str(path)


BROKEN = {
    "no libcupti": (
        with_file("site/nvidia/cuda_cupti/lib/libcupti.so.12", None),
        ("CUPTI", "library"),
        "fail",
        "No libcupti",
        "LD_LIBRARY_PATH",
    ),
    "libcupti of another CUDA": (
        with_fields(packages={"torch": "2.13.0+cu118", "grpcio": "1"}),
        ("CUPTI", "library"),
        "fail",
        "built for CUDA 11",
        "LD_LIBRARY_PATH",
    ),
    "libcupti cannot be loaded": (
        with_fields(load=loads("cupti")),
        ("CUPTI", "library"),
        "fail",
        "cannot be loaded",
        "LD_LIBRARY_PATH",
    ),
    "libcupti without a driver": (
        with_fields(load=loads(cupti=999)),
        ("CUPTI", "library"),
        "fail",
        "finds no driver",
        "nvidia-smi",
    ),
    "another tool is injected": (
        with_fields(environ={"CUDA_INJECTION64_PATH": "/opt/tool.so"}),
        ("CUPTI", "other profilers"),
        "warn",
        "/opt/tool.so",
        "dcgmi",
    ),
    "only administrators may profile": (
        with_file("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n"),
        ("NVIDIA", "permission to profile"),
        "warn",
        "SYS_ADMIN",
        "nvidia-profiling.conf",
    ),
    "DCGM runs": (
        with_file("proc/77/comm", "nv-hostengine\n"),
        ("CUPTI", "other profilers"),
        "warn",
        "nv-hostengine (process 77)",
        "dcgmi profile --pause",
    ),
    "a kernel driver that does not show": (
        with_file("proc/driver/nvidia/version", None),
        ("NVIDIA", "kernel driver"),
        "warn",
        "does not show",
        "docker run --gpus all",
    ),
    "cores may not be sampled": (
        with_file("proc/sys/kernel/perf_event_paranoid", "4\n"),
        ("tools", "samples of cores by nsys"),
        "warn",
        "perf_event_paranoid is 4",
        "sudo sysctl kernel.perf_event_paranoid=2",
    ),
    "no gRPC beside TensorFlow": (
        with_fields(packages={"tensorflow": "2.21.0"}),
        ("frameworks", "gRPC"),
        "warn",
        "TensorFlow uses its default levels",
        "pip install grpcio",
    ),
    "no CUDA driver": (
        with_fields(load=loads("libcuda")),
        ("NVIDIA", "CUDA driver"),
        "fail",
        "cannot be loaded",
        "--gpus all",
    ),
    "no NVML": (
        with_fields(load=loads("nvidia-ml")),
        ("NVIDIA", "NVML"),
        "warn",
        "power and clocks are unknown",
        "utility",
    ),
    "a framework without GPU": (
        with_fields(packages={"torch": "2.13.0+cpu", "grpcio": "1"}),
        ("frameworks", "PyTorch"),
        "fail",
        "a build without GPU",
        "pip install",
    ),
    "TensorFlow without GPU": (
        with_fields(packages={"tensorflow-cpu": "2.21.0", "grpcio": "1"}),
        ("frameworks", "TensorFlow"),
        "fail",
        "a build without GPU",
        "tensorflow[and-cuda]",
    ),
    "a driver older than the frameworks' CUDA": (
        with_fields(load=loads(cuda=11080)),
        ("NVIDIA", "CUDA driver"),
        "fail",
        "CUDA 11.8, but the frameworks are built for CUDA 12",
        "newer driver",
    ),
    "jaxlib newer than jax": (
        with_packages(jax="0.10.1", jaxlib="0.10.2"),
        ("frameworks", "versions"),
        "fail",
        "cannot be imported",
        "pip install --upgrade jax jaxlib",
    ),
    "JAX's plugin of another version": (
        with_packages(
            jax="0.10.2",
            jaxlib="0.10.2",
            **{"jax-cuda12-plugin": "0.10.1", "jax-cuda12-pjrt": "0.10.2"},
        ),
        ("frameworks", "versions"),
        "fail",
        "jax-cuda12-plugin 0.10.1 does not match jaxlib",
        "jax-cuda12-plugin==0.10.2",
    ),
    "Keras 2 beside a TensorFlow that needs 3": (
        with_packages(tensorflow="2.21.0", keras="2.15.0"),
        ("frameworks", "versions"),
        "fail",
        "needs keras>=3",
        "pip install 'keras>=3'",
    ),
    "Keras 3 beside a TensorFlow that needs 2": (
        with_packages(tensorflow="2.15.1", keras="3.15.0"),
        ("frameworks", "versions"),
        "fail",
        "needs keras<3",
        "pip install 'keras<3'",
    ),
    "ports that are taken": (
        with_fields(is_free=lambda port: port != 6007),
        ("here and now", "ports"),
        "warn",
        "listens at 6007 (stepscope serve).",
        "--port 0",
    ),
    "no gRPC": (
        with_fields(packages={"torch": "2.13.0+cu126"}),
        ("frameworks", "gRPC"),
        "warn",
        "from outside",
        "pip install",
    ),
    "a slow clock": (
        with_file(
            "sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"
        ),
        ("machine", "clock"),
        "warn",
        "hpet",
        "available_clocksource",
    ),
    "a full disk": (
        with_fields(free_bytes=lambda _: 2**20),
        ("here and now", "free space"),
        "warn",
        "0.00 GiB",
        "--logdir",
    ),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_what_is_broken_is_said_with_what_mends_it(
    healthy: Machine, tmp_path: Path, name: str
) -> None:
    """The healthy machine is the mended one: the test above finds nothing there."""
    breaks, where, state, fact, command = BROKEN[name]
    one = looked(breaks(healthy), tmp_path)[where]
    assert (one.state, fact in one.fact) == (state, True), one
    assert one.remedy
    assert any(command in text for text in (*one.commands, one.remedy)), one


def test_a_library_that_is_missing_comes_with_a_package(
    healthy: Machine, tmp_path: Path
) -> None:
    """The package of the frameworks' CUDA version, and the folder that it makes."""
    with_file("site/nvidia/cuda_cupti/lib/libcupti.so.12", None)(healthy)
    install, path = looked(healthy, tmp_path)["CUPTI", "library"].commands
    assert install == "pip install --force-reinstall nvidia-cuda-cupti-cu12"
    folder = healthy.packages_at / "nvidia/cuda_cupti/lib"
    assert path == f'export LD_LIBRARY_PATH="{folder}:$LD_LIBRARY_PATH"'
    newer = with_packages(**{"jax-cuda13-plugin": "0.11.2"})(healthy)
    install, path = looked(newer, tmp_path)["CUPTI", "library"].commands
    assert install == "pip install --force-reinstall 'nvidia-cuda-cupti==13.*'"
    assert "/nvidia/cu13/lib:" in path


def test_a_library_of_a_toolkit_has_to_be_on_the_loaders_path(
    healthy: Machine, tmp_path: Path
) -> None:
    with_file("site/nvidia/cuda_cupti/lib/libcupti.so.12", None)(healthy)
    name = "usr/local/cuda-12.6/extras/CUPTI/lib64/libcupti.so.12"
    with_file(name, "")(healthy)
    found = looked(healthy, tmp_path)["CUPTI", "library"]
    assert found.state == "ok"

    def by_path_alone(name: str) -> Library:
        if name == "libcupti.so.12":
            raise OSError(name)
        return loads()(name)

    hidden = msgspec.structs.replace(healthy, load=by_path_alone)
    found = looked(hidden, tmp_path)["CUPTI", "library"]
    assert found.state == "warn"
    folder = (healthy.root / name).parent
    assert found.commands == (f'export LD_LIBRARY_PATH="{folder}:$LD_LIBRARY_PATH"',)


@pytest.mark.parametrize(
    ("driver", "right", "other"),
    [("550.54.15", "SYS_ADMIN", "PERFMON"), ("570.86.10", "PERFMON", "SYS_ADMIN")],
)
def test_the_least_right_is_asked_for_first(
    healthy: Machine, tmp_path: Path, driver: str, right: str, other: str
) -> None:
    """One process, then a container, a pod, and at last every user."""
    with_file("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")(healthy)
    shown = VERSION.replace("550.54.15", driver)
    with_file("proc/driver/nvidia/version", shown)(healthy)
    found = looked(healthy, tmp_path)["NVIDIA", "permission to profile"]
    assert right in found.fact
    words = ["setpriv", "docker run", "kubectl", "modprobe.d"]
    for command, word in zip(found.commands, words, strict=True):
        assert word in command
        assert other not in command
    assert f"--ambient-caps=+{right.lower()} " in found.commands[0]
    assert found.commands[1] == f"docker run --cap-add={right} …"
    patch = shlex.split(found.commands[2])[-1].removeprefix("--patch=")
    (change,) = json.loads(patch)
    assert change["value"] == {"capabilities": {"add": [right]}}


def test_programs_that_can_be_recorded_are_named(
    healthy: Machine, tmp_path: Path
) -> None:
    where = "here and now", "programs that listen"
    assert looked(healthy, tmp_path)[where].state == "skip"
    listening = [f"{number} (train.py) at 127.0.0.1:{number}" for number in range(7)]
    found = looked(with_fields(servers=lambda: listening)(healthy), tmp_path)[where]
    assert found.state == "ok"
    assert found.fact.startswith("0 (train.py) at 127.0.0.1:0, 1 (train.py)")
    assert found.fact.endswith("4 (train.py) at 127.0.0.1:4 and 2 more.")


def test_versions_that_fit_are_said_to(healthy: Machine, tmp_path: Path) -> None:
    fitting = with_packages(
        jax="0.10.2",
        jaxlib="0.10.2.dev1",
        tensorflow="2.21.0",
        keras="3.15.0",
        **{"jax-cuda12-plugin": "0.10.2"},
    )
    found = looked(fitting(healthy), tmp_path)
    assert found["frameworks", "versions"].state == "ok"
    assert ("frameworks", "versions") not in looked(healthy, tmp_path)


def test_a_port_where_somebody_listens_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert not Machine.here().is_free(port)


def test_an_administrator_may_profile_where_only_they_may(
    healthy: Machine, tmp_path: Path
) -> None:
    with_file("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")(healthy)
    with_file("proc/self/status", ADMIN)(healthy)
    where = "NVIDIA", "permission to profile"
    assert looked(healthy, tmp_path)[where].state == "ok"
    # Only newer drivers take the smaller right.
    with_file("proc/self/status", PERFMON)(healthy)
    assert looked(healthy, tmp_path)[where].state == "warn"
    newer = VERSION.replace("550.54.15", "565.57.01")
    with_file("proc/driver/nvidia/version", newer)(healthy)
    assert looked(healthy, tmp_path)[where].state == "ok"


def test_a_machine_without_a_gpu_is_asked_nothing_about_one(
    healthy: Machine, tmp_path: Path
) -> None:
    with_file("dev/nvidia0", None)(healthy)
    found = looked(healthy, tmp_path)
    assert {
        one.state for one in found.values() if one.group in {"NVIDIA", "CUPTI"}
    } == {"skip"}
    assert found["frameworks", "PyTorch"].state == "ok"


def test_a_tool_that_watches_calls_is_named_while_it_does(
    healthy: Machine, tmp_path: Path
) -> None:
    where = "Python", "calls of functions"
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        found = looked(healthy, tmp_path)[where]
    finally:
        sys.setprofile(before)
    assert found.state == "warn"
    assert "sys.setprofile" in found.fact
    if before is None:
        assert looked(healthy, tmp_path)[where].state == "ok"


def test_a_build_without_the_lock_is_a_warning(
    healthy: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ("Python", "build") not in looked(healthy, tmp_path)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: 1)
    assert looked(healthy, tmp_path)["Python", "build"].state == "warn"


@pytest.mark.parametrize(
    ("file", "environ", "said"),
    [
        (None, {}, "This is not a container."),
        (".dockerenv", {}, "a container of Docker"),
        ("run/.containerenv", {}, "a container of Podman"),
        (None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "of Kubernetes"),
    ],
)
def test_a_container_is_said_to_be_one(
    healthy: Machine,
    tmp_path: Path,
    file: str | None,
    environ: dict[str, str],
    said: str,
) -> None:
    machine = with_fields(environ=environ)(healthy)
    if file is not None:
        with_file(file, "")(machine)
    assert said in looked(machine, tmp_path)["machine", "container"].fact


def test_a_log_directory_that_cannot_be_made(healthy: Machine, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    # Below a file no folder can be made; who asks as root may write anywhere else.
    found = looked(healthy, Path("/proc/self/logs"))
    assert found["here and now", "log directory"].state == "fail"


def test_the_command_says_the_same_in_words_and_as_json(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["doctor", "--logdir", str(tmp_path)])
    told = CliRunner().invoke(
        main, ["doctor", "--logdir", str(tmp_path), "--format", "json"]
    )
    found = json.loads(told.stdout)
    assert found["schema"] == 1
    assert set(found["checks"][0]) == {
        "group", "name", "state", "fact", "remedy", "commands",
    }  # fmt: skip
    failed = any(one["state"] == "fail" for one in found["checks"])
    assert ran.exit_code == told.exit_code == int(failed)
    for one in found["checks"]:
        assert f"{one['name']}:" in ran.stdout
        assert all(command in ran.stdout for command in one["commands"])


def test_of_a_recording_each_table_is_there_or_has_a_reason(repository: Path) -> None:
    path = repository / "tests" / "data" / "torch_cpu"
    run = next(path.rglob("*.json.gz"), None) or next(path.rglob("*.pb*"))
    told = CliRunner().invoke(main, ["doctor", str(run), "--format", "json"])
    found = {one["name"]: one for one in json.loads(told.stdout)["checks"]}
    assert found["events"]["state"] == "ok"
    assert found["events"]["fact"].endswith(" rows")
    silent = found["device_activity"]
    assert silent["state"] == "warn"
    assert silent["remedy"]
    assert "0 rows" not in silent["fact"]


def test_a_remedy_fits_the_program_and_what_was_in_force(tmp_path: Path) -> None:
    """A program without a framework was told to record TensorFlow's allocators."""
    with ss.Profile(tmp_path):
        for number in range(3):
            with ss.StepTrace(number):
                sum(range(1000))
    told = CliRunner().invoke(main, ["doctor", str(tmp_path), "--format", "json"])
    found = {one["name"]: one for one in json.loads(told.stdout)["checks"]}
    for name in ("allocations", "hlo_ops", "parameters"):
        assert (found[name]["state"], found[name]["remedy"]) == ("skip", None)
    said = " ".join(one["remedy"] or "" for one in found.values())
    for framework in ("TensorFlow", "tf.data", "DataLoader", "Keras", "tf.function"):
        assert framework not in said


def test_after_commands_the_doctor_is_asked_again() -> None:
    one = Check(group="a", name="b", state="fail", fact="c.", remedy="D.")
    again = "Then run stepscope doctor again to check the changes."
    assert again not in list(doctor.check_lines([one]))
    mended = msgspec.structs.replace(one, commands=("nvidia-smi",))
    assert list(doctor.check_lines([mended]))[-3] == again


def test_checks_with_one_remedy_for_one_reason_are_one_line() -> None:
    lacking = Check(
        group="host",
        name="launches",
        state="warn",
        fact="it has no device.",
        remedy="Record one.",
    )
    found = [lacking, msgspec.structs.replace(lacking, name="devices")]
    found.insert(1, Check(group="host", name="events", state="ok", fact="3 rows"))
    assert list(doctor.check_lines(found))[:4] == [
        "host",
        "  warn  launches, devices: It has no device.",
        "        → Record one.",
        "  ok    events: 3 rows",
    ]
