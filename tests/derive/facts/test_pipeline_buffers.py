"""`pipeline_buffers`: what the stages of tf.data pipelines hold, worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint

from stepscope.derive.facts.hosts.pipeline_buffers import (
    PipelineBuffer,
    pipeline_buffers,
)
from stepscope.session import open_profile

if TYPE_CHECKING:
    from pathlib import Path

IMAGES = {"shapes": "[64,64,3] []", "types": "float int64"}
#: 64 x 64 x 3 floats, and one label.
IMAGE_BYTES = 64 * 64 * 3 * 4 + 8
INDEX = {"shapes": "[]", "types": "int64"}


def buffers(*calls: tuple[str, dict[str, Any]]) -> tuple[PipelineBuffer, ...]:
    """Buffers of stages by long name, one call after the other."""
    lines = [
        ("main", f"Iterator::{name}", 10.0 * at, 5.0, values)
        for at, (name, values) in enumerate(calls)
    ]
    found = blueprint.profile(blueprint.trace(lines)).of_run(pipeline_buffers)
    assert len(found) <= 1
    return next(iter(found.values()), ())


def test_a_buffer_is_its_largest_number_of_elements_times_an_element() -> None:
    (shuffle,) = buffers(
        ("Shuffle", IMAGES | {"buffered_elements": 100, "buffered_bytes_MB": 4}),
        ("Shuffle", IMAGES | {"buffered_elements": 500, "buffered_bytes_MB": 24}),
        ("Shuffle::Map", IMAGES),
        ("Shuffle::Map::Range", INDEX),
        # It is no part of what the shuffle takes its elements from.
        ("ShuffleAndRepeat", {"shapes": "[]", "types": "bool"}),
    )
    assert (shuffle.kind, shuffle.type) == ("shuffle", "Shuffle")
    assert shuffle.held_bytes == 500 * IMAGE_BYTES
    assert (shuffle.element_bytes, shuffle.smallest_bytes) == (IMAGE_BYTES, 8)


@pytest.mark.parametrize(
    ("shapes", "types"),
    [
        ("[]", "string"),
        ("[?,64,64,3]", "float"),
        ("<unknown>", "float"),
        ("[64] []", "float"),
        ("", ""),
    ],
)
def test_elements_without_a_fixed_size_have_the_size_that_tf_data_recorded(
    shapes: str, types: str
) -> None:
    values = {"shapes": shapes, "types": types, "buffered_elements": 499}
    assert buffers(("Shuffle", values)) == ()
    (shuffle,) = buffers(("Shuffle", values | {"buffered_bytes_MB": 28}))
    assert (shuffle.held_bytes, shuffle.element_bytes) == (28_000_000, None)


def test_the_largest_buffer_comes_first_and_other_stages_hold_nothing() -> None:
    held = buffers(
        ("Prefetch", IMAGES | {"buffered_elements": 2}),
        ("Prefetch::Batch", IMAGES | {"buffered_elements": 900}),
        (
            "Prefetch::Batch::ForeverRepeat[0]::MemoryCacheImpl",
            {"buffered_bytes_MB": 4},
        ),
        ("Prefetch::Batch::ForeverRepeat[0]::MemoryCache", IMAGES),
        ("Prefetch::Batch::Shuffle", INDEX | {"buffer_size": 500}),
    )
    assert [(one.kind, one.held_bytes) for one in held] == [
        ("cache", 4_000_000),
        ("prefetch", 2 * IMAGE_BYTES),
    ]
    # A prefetch stays at the end, although an earlier element is smaller.
    assert held[1].smallest_bytes is None


def test_a_host_without_pipelines_has_no_buffers() -> None:
    assert buffers() == ()
    assert buffers(("Map", IMAGES)) == ()


def test_a_recorded_pipeline_of_images_holds_a_batch(repository: Path) -> None:
    profile = open_profile(repository / "tests/data/tf_cpu/keras_fit")
    ((largest, mapped),) = profile.of_run(pipeline_buffers).values()
    # One batch of 16 images and labels is ready, and two images are being mapped.
    assert (largest.type, largest.held_bytes) == ("Prefetch", 16 * IMAGE_BYTES)
    assert (mapped.type, mapped.held_bytes) == ("ParallelMap", 2 * IMAGE_BYTES)
