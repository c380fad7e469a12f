"""Places in a tree of calls, against the paths that are spelled out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.traces import blueprint

from stepscope.derive.model.call_trees import ProgramTrees, merge_nodes, program_places


@given(st.data())
def test_items_share_a_place_when_their_paths_are_equal(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 40))
    parent = [data.draw(st.integers(-1, at - 1)) for at in range(count)]
    key = [data.draw(st.integers(0, 2)) for _ in range(count)]
    found = merge_nodes(np.array(parent, np.int32), np.array(key, np.int32))
    paths: list[tuple[int, ...]] = []
    for at in range(count):
        above = paths[parent[at]] if parent[at] >= 0 else ()
        paths.append((*above, key[at]))

    def spelled(place: int) -> tuple[int, ...]:
        above = int(found.parent[place])
        assert above < place
        return (*(spelled(above) if above >= 0 else ()), int(found.key[place]))

    assert [spelled(place) for place in found.node.tolist()] == paths
    assert len(found.parent) == len(set(paths))


def places(*lines: blueprint.Line) -> ProgramTrees:
    profile = blueprint.profile(blueprint.trace(lines))
    found = profile.derived("vm", program_places)
    assert isinstance(found, ProgramTrees)
    return found


def test_frames_of_both_tracers_are_lines() -> None:
    found = places(
        ("main", "$train.py:12 step", 0, 100),
        ("main", "$<unknown> digest", 1, 90),  # no line: looked through
        ("main", "lib/layer.py(7): forward", 2, 50),
        ("main", "a:A", 3, 10),
        ("main", "b:B", 60, 10),
        ("other", "c:C", 0, 5),
    )
    assert found.modules is None
    assert found.lines is not None
    texts = found.lines.texts.to_list()
    named = [
        None if node < 0 else texts[found.lines.places.key[node]]
        for node in found.lines.node.tolist()
    ]
    assert named == [
        *("train.py:12 step", "train.py:12 step", "lib/layer.py:7 forward"),
        *("lib/layer.py:7 forward", "train.py:12 step", None),
    ]


def test_without_frames_there_are_no_places() -> None:
    found = places(("main", "a:A", 0, 5))
    assert (found.lines, found.modules) == (None, None)
