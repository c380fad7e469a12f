"""What functions are called for."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import msgspec
import pytest
from tests.support.traces import blueprint

import stepscope
from stepscope.derive.host.function_purposes import (
    FunctionPurpose,
    function_purposes,
)
from stepscope.derive.host.placed_frames import function_frames
from stepscope.unavailable import Unavailable

LIBRARY = "/v/lib/python3.12/site-packages"


def found(lines: list[blueprint.Line]) -> list[tuple[str, str]]:
    """Function, and its purpose."""
    profile = blueprint.profile(blueprint.trace(lines))
    frames = profile.derived("vm", function_frames)
    purposes = profile.derived("vm", function_purposes)
    assert not isinstance(frames, Unavailable)
    assert not isinstance(purposes, Unavailable)
    return [
        (frames.names[kind].function, FunctionPurpose(purpose).name)
        for kind, purpose in zip(
            frames.type.tolist(), purposes.purpose.tolist(), strict=True
        )
    ]


def test_each_row_of_known_functions_has_a_purpose_or_work() -> None:
    table = files("stepscope").joinpath("derive/host/known_functions.json")
    rows = msgspec.json.decode(table.read_bytes(), type=list[dict[str, str]])
    assert all(("purpose" in row) != ("work" in row) for row in rows)
    purposes = {row["purpose"] for row in rows if "purpose" in row}
    assert purposes == set(FunctionPurpose.__members__) - {"UNKNOWN"}
    source = "".join(
        path.read_text("utf-8")
        for path in Path(stepscope.__file__).parent.rglob("*.py")
    )
    works = {row["work"] for row in rows if "work" in row}
    assert {work for work in works if f'"{work}"' not in source} == set()


def test_what_functions_of_libraries_do_is_known() -> None:
    lines: list[blueprint.Line] = [
        ("main", "/usr/lib/python3.12/copy.py(1): deepcopy", 0, 10),
        ("main", f"{LIBRARY}/torch/_tensor.py(5): Tensor.backward", 20, 10),
        ("main", "app/copy.py(1): deepcopy", 40, 10),
    ]
    profile = blueprint.profile(blueprint.trace(lines))
    frames = profile.derived("vm", function_frames)
    purposes = profile.derived("vm", function_purposes)
    assert not isinstance(frames, Unavailable)
    assert not isinstance(purposes, Unavailable)
    names = {
        work: [frames.names[kind].function for kind in kinds]
        for work, kinds in purposes.types_by_work.items()
    }
    assert names == {"copies": ["deepcopy"], "trains": ["Tensor.backward"]}


def test_what_a_checkpoint_calls_is_part_of_it() -> None:
    assert found(
        [
            ("main", "app/train.py(1): train", 0, 100),
            ("main", "app/keep.py(7): keep", 10, 50),
            ("main", f"{LIBRARY}/torch/serialization.py(900): save", 20, 30),
            ("main", "/usr/lib/python3.12/zipfile.py(3): write", 25, 10),
            ("main", "/usr/lib/python3.12/random.py(3): choice", 70, 10),
        ]
    ) == [
        ("train", "UNKNOWN"),
        ("keep", "UNKNOWN"),
        ("save", "CHECKPOINT"),
        ("write", "CHECKPOINT"),
        ("choice", "UNKNOWN"),
    ]


def test_the_outermost_purpose_counts() -> None:
    """A dataset that reads an array with a library's function still fetches a batch."""
    loader = f"{LIBRARY}/torch/utils/data/dataloader.py(700): __next__"
    assert found(
        [
            ("main", loader, 0, 100),
            ("main", "app/data.py(5): read", 10, 80),
            ("main", f"{LIBRARY}/numpy/lib/_npyio_impl.py(500): save", 20, 30),
        ]
    ) == [("__next__", "INPUT"), ("read", "INPUT"), ("save", "INPUT")]


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("/torch/utils/data/dataloader.py(1): _BaseDataLoaderIter.__next__", "INPUT"),
        ("/torch/utils/data/dataloader.py(1): DataLoader.__iter__", "INPUT"),
        ("/torch/utils/tensorboard/writer.py(1): add_scalar", "SUMMARY"),
        ("/numpy/lib/npyio.py(1): savez", "CHECKPOINT"),
        # A table as text is no checkpoint.
        ("/numpy/lib/npyio.py(1): savetxt", "UNKNOWN"),
        (
            "/tensorflow/python/checkpoint/checkpoint.py(1): Checkpoint.write",
            "CHECKPOINT",
        ),
        ("/orbax/checkpoint/checkpointer.py(1): Checkpointer.save", "CHECKPOINT"),
        ("/torch/serialization.py(1): load", "UNKNOWN"),
        ("/torch/serialization.py(1): _save", "CHECKPOINT"),
        ("/jax/_src/compiler.py(1): backend_compile_and_load", "COMPILE"),
        ("/torch/_dynamo/convert_frame.py(1): _compile", "COMPILE"),
        ("/torch/cuda/__init__.py(1): synchronize", "SYNC"),
        ("/torch/nn/modules/module.py(1): _call_impl", "UNKNOWN"),
    ],
)
def test_functions_of_libraries_have_their_purpose(name: str, purpose: str) -> None:
    ((_, told),) = found([("main", LIBRARY + name, 0, 10)])
    assert told == purpose


def test_purposes_are_known_where_the_folder_of_packages_is_cut_off() -> None:
    name = "torch/serialization.py(900): save"
    assert found([("main", name, 0, 10)]) == [("save", "CHECKPOINT")]


def test_a_function_of_the_program_has_none_whatever_its_name() -> None:
    assert found([("main", "app/torch/serialization.py(1): save", 0, 10)]) == [
        ("save", "UNKNOWN")
    ]


def test_where_its_path_is_unknown_so_is_its_purpose() -> None:
    assert found([("main", "$serialization.py:1 save", 0, 10)]) == [("save", "UNKNOWN")]


QUEUE = "$queue.py:154 get"
