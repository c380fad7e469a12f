"""Decoding whole profile messages: rules, damage, packing, limits."""

from __future__ import annotations

import gzip
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.xspace.kernels import uncompiled_xspace
from tests.support.xspace.proto import values_of_message, values_of_space
from tests.support.xspace.wire import (
    event,
    line,
    named,
    number_field,
    plane,
    sized,
    stat,
    tag,
)

from stepscope.errors import BadInput, Malformed
from stepscope.xspace.reading.columns import Damage, XSpace
from stepscope.xspace.reading.decode import decode_bytes, decode_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=["installed", "plain"], autouse=True)
def core(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs on both forms of the kernels."""
    with nullcontext() if request.param == "installed" else uncompiled_xspace():
        yield


def event_names(space: XSpace) -> list[str]:
    return [
        space.strings[handle] for handle in space.event_types.name[space.events.type]
    ]


def recorded(repository: Path) -> list[Path]:
    paths = sorted((repository / "tests" / "data").rglob("*.xplane.pb*"))
    assert paths
    return paths


def whole_bytes(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


@pytest.mark.slow(seconds=0.8)
@pytest.mark.sweep(every=2)
def test_every_value_of_the_committed_recordings_equals_protobufs(
    repository: Path,
) -> None:
    paths = recorded(repository)
    assert paths
    for path in paths:
        data = whole_bytes(path)
        if len(data) < 2**18:
            assert values_of_message(data) == values_of_space(decode_file(path))


@pytest.mark.parametrize(
    "source",
    [
        "tf_cpu/keras_fit",
        "tf_cpu/tf215_python_tracer",
        "gpu_tf/turing_launch_bound",
        "gpu_jax_amd/jax08_conv",
        "jax_cpu/annotations",
        "tpu/tpu_inference_2",
    ],
)
@pytest.mark.sweep(every=3)
def test_every_value_of_real_profiles_equals_protobufs(
    shared_profile: Callable[[str], Path], source: str
) -> None:
    paths = sorted(shared_profile(source).rglob("*.xplane.pb*"))
    assert paths
    for path in paths:
        assert values_of_message(whole_bytes(path)) == values_of_space(
            decode_file(path)
        )


def test_the_key_of_a_map_entry_wins_and_the_last_entry_of_a_key() -> None:
    data = plane(
        sized(
            4, number_field(1, 5) + sized(2, number_field(1, 6) + sized(2, b"by key"))
        ),
        named(4, 7, "first", sized(4, b"shown first")),
        named(4, 7, "last"),
        named(4, -3, "negative"),
        named(4, 2**33 + 5, "wide"),
        sized(4, sized(2, sized(2, b"no key"))),
        sized(4, number_field(1, 8)),
        line(*(event(number_field(1, key)) for key in (5, 7, -3, 2**33 + 5, 0, 8))),
    )
    space = decode_bytes(data)
    assert event_names(space) == ["by key", "last", "negative", "wide", "no key", ""]
    assert set(space.event_types.display_name.tolist()) == {-1}
    assert not space.event_types.unknown.any()


def test_a_value_in_pieces_is_one_message() -> None:
    pieces = sized(2, sized(2, b"old") + sized(4, b"shown")) + sized(
        2, sized(2, b"new")
    )
    space = decode_bytes(plane(sized(4, number_field(1, 1) + pieces)))
    (name,), (shown,) = space.event_types.name, space.event_types.display_name
    assert (space.strings[name], space.strings[shown]) == ("new", "shown")


def test_ids_without_an_entry_get_names_that_say_so() -> None:
    stats = stat(number_field(1, 9)) + stat(number_field(1, 2**40))
    data = plane(
        named(4, 1, "known"),
        line(*(event(number_field(1, key), stats) for key in (1, 7, -1, 7))),
    ) + plane(line(event(number_field(1, 7))))
    space = decode_bytes(data)
    assert event_names(space) == [
        "known",
        "(unknown event 7)",
        "(unknown event -1)",
        "(unknown event 7)",
        "(unknown event 7)",
    ]
    # Each plane has ids of its own.
    assert space.event_types.plane[space.events.type].tolist() == [0, 0, 0, 0, 1]
    assert space.events.type[1] != space.events.type[4]
    assert space.event_types.unknown.tolist() == [False, True, True, True]
    assert [space.strings[key] for key in space.stats.key[:2]] == [
        "(unknown stat 9)",
        f"(unknown stat {2**40})",
    ]


def test_stat_names_of_several_entries_and_planes_share_a_handle() -> None:
    one = plane(
        named(5, 1, "bytes"),
        named(5, 2, "bytes"),
        line(event(*(stat(number_field(1, key)) for key in (1, 2)))),
    )
    space = decode_bytes(one + one)
    assert len(set(space.stats.key.tolist())) == 1


def test_times_stay_as_recorded() -> None:
    epoch = 1_760_000_000_000_000_000
    data = plane(
        line(number_field(3, epoch), event(number_field(2, 5))),
        line(number_field(3, 36_840), event(number_field(3, -1))),
        line(event(number_field(2, 2**63 - 1))),
    )
    space = decode_bytes(data)
    assert space.lines.timestamp_ns.tolist() == [epoch, 36_840, 0]
    assert space.events.offset_ps.tolist() == [5, 0, 2**63 - 1]
    assert space.events.dur_ps.tolist() == [0, -1, 0]


def test_concatenated_messages_are_one_stream_of_planes() -> None:
    one = plane(sized(2, b"a"), line(event())) + sized(4, b"h1")
    two = (
        plane(sized(2, b"a"), line(event(), event())) + sized(3, b"w") + sized(4, b"h2")
    )
    space = decode_bytes(one + two)
    assert [(p.name, p.line_begin, p.line_end) for p in space.planes] == [
        ("a", 0, 1),
        ("a", 1, 2),
    ]
    assert space.lines.event_end.tolist() == [1, 3]
    assert (space.hostnames, space.warnings) == (("h1", "h2"), ("w",))


def test_text_that_is_not_utf8_is_replaced_and_equal_texts_share_a_handle() -> None:
    data = plane(
        sized(4, number_field(1, 1) + sized(2, sized(2, b"\xff"))),
        sized(4, number_field(1, 2) + sized(2, sized(2, b"\xfe"))),
        line(event(number_field(1, 1)), event(number_field(1, 2))),
    )
    space = decode_bytes(data)
    assert event_names(space) == ["\N{REPLACEMENT CHARACTER}"] * 2
    assert len(set(space.strings)) == len(space.strings)


def blueprint() -> bytes:
    """Two planes, three lines, five events, with names after the lines as usual."""
    one = event(number_field(1, 1), number_field(2, 1000), number_field(3, 10))
    first = plane(
        sized(2, b"/host:CPU"),
        line(number_field(1, 1), sized(2, b"main"), one, one),
        line(number_field(1, 2), sized(2, b"worker"), one),
        named(4, 1, "step"),
    )
    return first + plane(line(one, one), named(4, 1, "kernel")) + sized(4, b"host")


def events_before(data: bytes, length: int) -> int:
    """How many events end at or before a place, found by their pattern."""
    one = event(number_field(1, 1), number_field(2, 1000), number_field(3, 10))
    count, at = 0, data.find(one)
    while 0 <= at <= length - len(one):
        count, at = count + 1, data.find(one, at + 1)
    return count


def test_a_file_cut_anywhere_gives_every_whole_event_before_the_cut() -> None:
    data = blueprint()
    assert len(decode_bytes(data).events) == events_before(data, len(data)) == 5
    assert decode_bytes(data).damage == ()
    for length in range(1, len(data)):
        try:
            space = decode_bytes(data[:length])
        except Malformed:
            # Only where there was nothing yet.
            assert length <= data.index(b"/host:CPU") + len("/host:CPU")
            continue
        assert len(space.events) == events_before(data, length)
        assert len(space.damage) <= 1
        for damage in space.damage:
            assert damage.offset <= length
            assert damage.lost_bytes > 0
            assert "ends" in damage.what or "malformed" in damage.what


def test_damage_of_a_cut_file_says_where_it_ends_and_what_is_missing() -> None:
    data = blueprint()
    end_of_first = data.index(b"/host:CPU") - 4 + 2 + data[1]
    place = data.index(b"worker") + len("worker")
    assert decode_bytes(data[: place + 3]).damage == (
        Damage(
            place,
            "the file ends within line 'worker' of plane '/host:CPU'",
            end_of_first - place,
        ),
    )


@pytest.mark.profiles
@pytest.mark.parametrize(
    ("source", "events"),
    [("truncated_25", 4202), ("truncated_60", 8569), ("truncated_99", 14467)],
)
def test_real_cut_files_give_all_events_but_no_names(
    shared_profile: Callable[[str], Path], source: str, events: int
) -> None:
    (path,) = shared_profile(f"corrupt/{source}").rglob("*.xplane.pb*")
    space = decode_file(path)
    assert len(space.events) == events
    assert set(event_names(space)) == {
        f"(unknown event {number})" for number in set(space.event_types.id.tolist())
    }
    (damage,) = space.damage
    assert "the file ends within line" in damage.what
    size = path.stat().st_size
    assert size - 64 < damage.offset <= size
    assert damage.lost_bytes > 361_000 - size


def test_a_line_that_breaks_keeps_its_beginning_and_the_others() -> None:
    bad = event(tag(1, 3))
    good = event(number_field(1, 1))
    data = plane(
        line(good, good, bad, good), line(good), named(4, 1, "n"), sized(2, b"p")
    )
    space = decode_bytes(data)
    assert (space.lines.event_end - space.lines.event_begin).tolist() == [2, 1]
    assert event_names(space) == ["n"] * 3
    (damage,) = space.damage
    assert damage.offset == data.index(bad)
    assert damage.lost_bytes == len(bad + good)
    assert damage.what == "line '' of plane 'p' is malformed"


def test_a_stat_that_breaks_ends_its_line_too() -> None:
    good = event(number_field(1, 1), stat(number_field(1, 1)))
    bad = event(stat(number_field(1, 1)), stat(tag(5, 2) + b"\x7fx"))
    data = plane(
        line(good, bad, good), line(good), named(4, 1, "n"), named(5, 1, "key")
    )
    space = decode_bytes(data)
    assert space.lines.event_begin.tolist() == [0, 1]
    assert space.lines.event_end.tolist() == [1, 2]
    assert space.stats.event.tolist() == [0, 1]
    assert [damage.offset for damage in space.damage] == [data.index(bad)]


def test_a_plane_that_breaks_leaves_the_next_one_whole() -> None:
    data = plane(line(event()), tag(7, 4)) + plane(line(event(), event()))
    space = decode_bytes(data)
    assert space.lines.event_end.tolist() == [1, 3]
    (damage,) = space.damage
    assert damage.what == "plane '' is malformed"
    assert damage.lost_bytes == 1


def test_a_name_that_breaks_is_left_out_and_counted() -> None:
    broken = sized(4, number_field(1, 1) + sized(2, tag(2, 2) + b"\x50x"))
    data = plane(broken, named(4, 2, "two"), line(event(number_field(1, 1))))
    space = decode_bytes(data)
    assert event_names(space) == ["(unknown event 1)"]
    assert [damage.what for damage in space.damage] == ["a name's entry is malformed"]


def test_much_damage_is_summed_up() -> None:
    data = plane(*(line(event(), tag(7, 4)) for _ in range(100)))
    space = decode_bytes(data)
    assert len(space.events) == 100
    assert len(space.damage) == 33
    assert space.damage[-1].what == "68 more places are malformed or cut off"
    assert space.damage[-1].lost_bytes == 68


def test_a_message_without_a_profile_is_refused_with_the_place() -> None:
    for data, place in ((b"\x0b", 0), (number_field(9, 5), 0), (b"\x00" * 50, 0)):
        with pytest.raises(Malformed, match=rf"^file\.pb: .* at byte {place}\. Copy"):
            decode_bytes(data, "file.pb")


def test_nothing_is_refused_with_the_likely_cause(tmp_path: Path) -> None:
    path = tmp_path / "empty.xplane.pb"
    path.touch()
    with pytest.raises(BadInput, match="2 GiB limit"):
        decode_file(path)
    with pytest.raises(BadInput, match="is empty"):
        decode_bytes(b"")
    with pytest.raises(BadInput, match="cannot be read"):
        decode_file(tmp_path / "absent.xplane.pb")


def test_a_file_saved_as_text_is_recognised(repository: Path) -> None:
    data = whole_bytes(recorded(repository)[0])
    mangled = data.decode("utf-8", "replace").encode()
    with pytest.raises(
        BadInput, match=r"text conversion: .* EF BF BD\. Copy .* binary"
    ):
        decode_bytes(mangled)


@pytest.mark.profiles
def test_a_real_file_saved_as_text_is_recognised(
    shared_profile: Callable[[str], Path],
) -> None:
    (path,) = shared_profile("corrupt/utf8_mangled").rglob("*.xplane.pb*")
    with pytest.raises(BadInput, match="text conversion"):
        decode_file(path)


def test_packed_files_are_found_by_content(tmp_path: Path) -> None:
    data = blueprint()
    path = tmp_path / "no_suffix"
    half = len(data) // 2
    members = gzip.compress(data[:half]) + gzip.compress(data[half:]) + bytes(20)
    for packed in (gzip.compress(data), members):
        path.write_bytes(packed)
        for space in (decode_file(path), decode_bytes(packed)):
            assert values_of_space(space) == values_of_message(data)
            assert space.damage == ()


def test_a_cut_packed_file_gives_what_could_be_unpacked(repository: Path) -> None:
    # One whose names, which come before the events of a plane, are less than half.
    path = next(it for it in recorded(repository) if "check_torch" in it.parts)
    data = whole_bytes(path)
    # Stored without compression, so that each half of the stream is half of the data.
    packed = gzip.compress(data, 0)
    space = decode_bytes(packed[: len(packed) // 2])
    whole = decode_bytes(data)
    assert 0 < len(space.events) < len(whole.events)
    same = slice(0, len(space.events))
    assert np.array_equal(space.events.offset_ps, whole.events.offset_ps[same])
    assert any("gzip" in damage.what for damage in space.damage)
    with pytest.raises(BadInput, match="cut before its first bytes"):
        decode_bytes(packed[:10])
    flipped = bytearray(packed)
    flipped[-6] ^= 1
    assert len(decode_bytes(bytes(flipped)).events) == len(whole.events)


def test_a_packed_file_beyond_the_limit_is_refused() -> None:
    packed = gzip.compress(bytes(10_000_000))
    with pytest.raises(BadInput, match="decompresses to more than 1,000,000 bytes"):
        decode_bytes(packed, limit_bytes=1_000_000)
