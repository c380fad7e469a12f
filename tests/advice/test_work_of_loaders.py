"""`input.bound` where a loader works in the program's own process: no more workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.traces.training import findings, on_host
from tests.support.traces.waiting import STEPS

if TYPE_CHECKING:
    from collections.abc import Collection

    from stepscope.advice.finding import Finding

LOADER = "$/v/lib/python3.12/site-packages/torch/utils/data/dataloader.py"
WAIT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LOOKS = "samples of main, 1000 a second"


KERAS = "$/v/lib/python3.12/site-packages/keras/src/trainers/data_adapters"


def fetching(
    *called: str, ms: float = 3.9, epochs: Collection[int] = range(20)
) -> Finding:
    """Of each step of 10 ms, a loader with workers is waited for in 4.

    Args:
        called: What the loader calls, outermost first.
        ms: For how long it does so.
        epochs: Numbers of the steps in which it does.
    """
    lines: list[Any] = [
        it for it in on_host(lead_us=4_100.0) if it[1] != "IteratorGetNext"
    ]
    for number, begin in enumerate(STEPS):
        lines += [
            ("main", WAIT, begin + 20.0, 4_000.0),
            (LOOKS, f"{LOADER}:700 _BaseDataLoaderIter.__next__", begin + 20, 4_000),
        ]
        if number in epochs:
            for function in called:
                lines.append((LOOKS, function, begin + 50.0, 1_000.0 * ms))
    return findings(lines, devices=None)["input.bound"]


def test_a_sampler_is_made_cheaper_and_gets_no_workers() -> None:
    index = f"{LOADER}:600 _BaseDataLoaderIter._next_index"
    found = fetching(index, "$/app/train.py:21 BalancedSampler.__iter__")
    assert found.parts[0].function == "BalancedSampler.__iter__"
    (action,) = found.actions
    assert action.text.startswith("Draw the indices of an epoch at once")
    # For less than half of the wait, the workers count.
    found = fetching(index, "$/app/train.py:21 BalancedSampler.__iter__", ms=1.9)
    assert not any(action.text.startswith("Draw") for action in found.actions)


def test_workers_that_each_epoch_starts_are_kept() -> None:
    start = f"{LOADER}:1000 _MultiProcessingDataLoaderIter.__init__"
    found = fetching(start, ms=1.0)
    (action,) = found.actions
    assert action.code == (
        "DataLoader(dataset, num_workers=8, persistent_workers=True)"
    )
    # An epoch of the twenty steps is one of twenty waits.
    found = fetching(start, ms=1.0, epochs=(10,))
    assert not any("Keep the worker" in action.text for action in found.actions)


def test_a_dataset_of_keras_has_workers_of_its_own() -> None:
    """Keras on PyTorch has a `DataLoader` that the program did not make."""
    generator = f"{KERAS}/py_dataset_adapter.py:300 PyDatasetAdapter._finite_generator"
    found = fetching(generator, "$/app/train.py:9 Signals.__getitem__")
    assert found.parts[0].function == "Signals.__getitem__"
    assert (found.actions[0].code or "").startswith("super().__init__(workers=1, ")
    assert not any("num_workers" in (action.code or "") for action in found.actions)
