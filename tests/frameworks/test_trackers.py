"""Reports in real runs of Weights & Biases (offline) and MLflow (files, a server)."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import interpreter, run_program

import stepscope as ss

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.framework, pytest.mark.integration]

NUMBERS = {
    "stepscope/steps",
    "stepscope/step_time_ms",
    "stepscope/step_time_median_ms",
    "stepscope/step_time_p95_ms",
    "stepscope/input_percent",
    "stepscope/findings_failed",
}
#: Reads the log of an offline run: messages of the tracker's own, in frames of LevelDB.
READ_OFFLINE = """
import json, struct, sys
from wandb.proto import wandb_internal_pb2
data = open(sys.argv[1], "rb").read()
HEADER, BLOCK = 7, 32768
at, records, part = HEADER, [], b""
while at + HEADER <= len(data):
    if BLOCK - at % BLOCK < HEADER:
        at += BLOCK - at % BLOCK
        continue
    _, size, kind = struct.unpack_from("<IHB", data, at)
    part += data[at + HEADER : at + HEADER + size]
    at += HEADER + size
    if kind in (1, 4):
        records.append(part)
        part = b""
found = {"history": {}, "artifacts": {}}
for body in records:
    record = wandb_internal_pb2.Record()
    record.ParseFromString(body)
    kind = record.WhichOneof("record_type")
    if kind == "history":
        for item in record.history.item:
            key = item.key or "/".join(item.nested_key)
            found["history"][key] = json.loads(item.value_json)
    asked = record.request.log_artifact.artifact
    artifact = record.artifact if kind == "artifact" else asked
    if artifact.name:
        files = [entry.path for entry in artifact.manifest.contents]
        found["artifacts"][artifact.name] = [artifact.type, files]
print(json.dumps(found))
"""


#: How long MLflow's server may take: it makes its database first.
PATIENCE_S = 120


@dataclass(frozen=True, kw_only=True)
class Server:
    """MLflow's own server, which may still be starting, with a database of its own."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError):
                self.get("/health")
                return
            time.sleep(0.1)
        pytest.fail(self.log.read_text())

    def get(self, target: str) -> bytes:
        return self._answer("GET", target)

    def post(self, target: str, **body: object) -> bytes:
        return self._answer("POST", target, json.dumps(body))

    def _answer(self, method: str, target: str, body: str | None = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            headers = {"Content-Type": "application/json"}
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            assert answer.status == 200, target
            return answer.read()


@pytest.fixture(scope="module", autouse=True)
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on this machine, which starts while other tests of this file run."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(interpreter("trackers"), "-m", "mlflow", "server"),
                *("--backend-store-uri", f"sqlite:///{folder / 'runs.db'}"),
                *("--artifacts-destination", folder / "files"),
                *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
            ],
            env={
                **os.environ,
                "MLFLOW_DISABLE_TELEMETRY": "true",
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            },
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    yield Server(process=process, port=port, log=log)
    # Its workers are processes of their own.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def log_to_mlflow(repository: Path, logs: Path, address: str) -> None:
    run_program(
        interpreter("trackers"),
        repository / "examples" / "logged_to_trackers.py",
        "mlflow",
        logs,
        environment={
            "MLFLOW_TRACKING_URI": address,
            "MLFLOW_ALLOW_FILE_STORE": "true",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
    )


def check_logged(metrics: dict[str, float], folder: Path, logs: Path) -> None:
    """Hold what a run of MLflow has against the report on what was recorded."""
    assert metrics.keys() >= NUMBERS
    seen = ss.open(logs).tool("overview_page")
    assert not isinstance(seen, ss.Unavailable)
    assert metrics["stepscope/steps"] == seen.step_count
    assert metrics["stepscope/step_time_ms"] == pytest.approx(seen.step_time_ms.mean)
    assert metrics["stepscope/input_percent"] == pytest.approx(seen.input_percent)
    (recorded,) = logs.rglob("*.xplane.pb")
    assert (folder / recorded.name).read_bytes() == recorded.read_bytes()
    assert (folder / "report.md").read_text().startswith("#")
    assert json.loads((folder / "report.json").read_text())["schema"] == 1
    table = json.loads((folder / "findings.json").read_text())
    assert ["input.bound", "fail"] in [row[:2] for row in table["data"]]
    assert len(table["columns"]) == len(table["data"][0])


def test_a_file_store_of_mlflow_has_metrics_findings_and_the_profile(
    repository: Path, tmp_path: Path
) -> None:
    store, logs = tmp_path / "store", tmp_path / "logs"
    log_to_mlflow(repository, logs, store.as_uri())
    (written,) = store.rglob("metrics/stepscope")
    metrics = {
        f"stepscope/{path.relative_to(written)}": float(path.read_text().split()[1])
        for path in written.rglob("*")
        if path.is_file()
    }
    (folder,) = store.rglob("artifacts/stepscope/*")
    check_logged(metrics, folder, logs)


def test_wandb_has_numbers_a_table_and_the_artifact(
    repository: Path, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    python = interpreter("trackers")
    run_program(
        python,
        repository / "examples" / "logged_to_trackers.py",
        "wandb",
        logs,
        environment={
            "WANDB_MODE": "offline",
            "WANDB_DIR": str(tmp_path),
            "WANDB_DATA_DIR": str(tmp_path),
            "WANDB_CACHE_DIR": str(tmp_path),
            "WANDB_SILENT": "true",
        },
    )
    (log,) = tmp_path.rglob("run-*.wandb")
    done = subprocess.run(
        [python, "-c", READ_OFFLINE, log], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found["history"].keys() >= NUMBERS
    seen = ss.open(logs).tool("overview_page")
    assert not isinstance(seen, ss.Unavailable)
    assert found["history"]["stepscope/steps"] == seen.step_count
    assert found["history"]["stepscope/findings/_type"] == "table-file"
    (table,) = tmp_path.rglob("*.table.json")
    rows = json.loads(table.read_text())["data"]
    assert ["input.bound", "fail"] in [row[:2] for row in rows]
    profiles = {n: it for n, it in found["artifacts"].items() if it[0] == "profile"}
    ((name, (_, files)),) = profiles.items()
    (recorded,) = logs.rglob("*.xplane.pb")
    assert name == f"stepscope-{recorded.parent.name}"
    assert set(files) == {recorded.name, "report.json", "report.md"}


def test_a_server_of_mlflow_has_metrics_findings_and_the_profile(
    repository: Path, tmp_path: Path, mlflow_server: Server
) -> None:
    logs, kept = tmp_path / "logs", tmp_path / "kept"
    mlflow_server.wait()
    log_to_mlflow(repository, logs, mlflow_server.address)
    api = "/api/2.0/mlflow"
    found = mlflow_server.post(f"{api}/runs/search", experiment_ids=["0"])
    (run,) = json.loads(found)["runs"]
    assert run["info"]["status"] == "FINISHED"
    number = run["info"]["run_id"]

    def files(folder: str) -> list[str]:
        target = f"{api}/artifacts/list?run_id={number}&path={folder}"
        return [each["path"] for each in json.loads(mlflow_server.get(target))["files"]]

    kept.mkdir()
    (folder,) = files("stepscope")
    for path in files(folder):
        target = f"{api}-artifacts/artifacts/0/{number}/artifacts/{path}"
        kept.joinpath(path.rpartition("/")[2]).write_bytes(mlflow_server.get(target))
    metrics = {each["key"]: each["value"] for each in run["data"]["metrics"]}
    check_logged(metrics, kept, logs)
