"""Reports in real runs of Weights & Biases (offline) and MLflow (its file store)."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.programs.frameworks import interpreter, run_program

import stepscope as ss

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

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


def test_mlflow_has_metrics_findings_and_the_profile(
    repository: Path, tmp_path: Path
) -> None:
    store, logs = tmp_path / "store", tmp_path / "logs"
    run_program(
        interpreter("trackers"),
        repository / "examples" / "logged_to_trackers.py",
        "mlflow",
        logs,
        environment={
            "MLFLOW_TRACKING_URI": store.as_uri(),
            "MLFLOW_ALLOW_FILE_STORE": "true",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
    )
    (metrics,) = store.rglob("metrics/stepscope")
    found = {
        f"stepscope/{path.relative_to(metrics)}": float(path.read_text().split()[1])
        for path in metrics.rglob("*")
        if path.is_file()
    }
    assert found.keys() >= NUMBERS
    seen = ss.open(logs).tool("overview_page")
    assert not isinstance(seen, ss.Unavailable)
    assert found["stepscope/steps"] == seen.step_count
    assert found["stepscope/step_time_ms"] == pytest.approx(seen.step_time_ms.mean)
    assert found["stepscope/input_percent"] == pytest.approx(seen.input_percent)
    (folder,) = (path for path in store.rglob("artifacts/stepscope/*"))
    (recorded,) = logs.rglob("*.xplane.pb")
    assert (folder / recorded.name).read_bytes() == recorded.read_bytes()
    assert (folder / "report.md").read_text().startswith("#")
    assert json.loads((folder / "report.json").read_text())["schema"] == 1
    table = json.loads((folder / "findings.json").read_text())
    assert ["input.bound", "fail"] in [row[:2] for row in table["data"]]
    assert len(table["columns"]) == len(table["data"][0])


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
