from __future__ import annotations

import pytest

from stepscope.formats.xplane.tables.details import (
    Copy,
    Geometry,
    parse_copy,
    parse_geometry,
)

WHOLE = (
    "regs:32 static_shared:1024 dynamic_shared:49152 grid:10,2,1 block:128,2,1 "
    "occ_pct:62.5"
)


@pytest.mark.parametrize(
    ("text", "geometry"),
    [
        (
            WHOLE,
            Geometry(32, 1024, 49152, 50176, (128, 2, 1), (10, 2, 1), 62.5),
        ),
        (
            "regs:16\nshm:0\ngrid:1,1,1\nblock:1024,1,1",
            Geometry(16, None, None, 0, (1024, 1, 1), (1, 1, 1), None),
        ),
        (
            " grid:16,1,1 block:512,1,1 private_mem:0 group_mem:0 occ_pct:0",
            Geometry(block=(512, 1, 1), grid=(16, 1, 1)),
        ),
        (
            " grid:6240,1,1 block:256,1,1 private_mem:0 group_mem:2112 occ_pct:0",
            Geometry(shared=2112, block=(256, 1, 1), grid=(6240, 1, 1)),
        ),
        ("", Geometry()),
        ("regs:many grid:1", Geometry(refused=("grid",))),
    ],
)
def test_each_form_of_launch_details_is_read(text: str, geometry: Geometry) -> None:
    assert parse_geometry(text) == geometry


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("regs:2191500840", "registers"),
        ("regs:513", "registers"),
        ("regs:-1", "registers"),
        ("block:1025,1,1", "block"),
        ("block:512,2,2", "block"),
        ("block:128,0,1", "block"),
        ("grid:0,1,1", "grid"),
        ("grid:2147483648,1,1", "grid"),
        ("grid:1,210453397508,0", "grid"),
        ("shm:1048577", "shared memory"),
        ("static_shared:0 dynamic_shared:99999999", "shared memory"),
        ("occ_pct:140", "occupancy"),
        ("occ_pct:nan", "occupancy"),
    ],
)
def test_what_no_hardware_has_is_refused_and_named(text: str, refused: str) -> None:
    geometry = parse_geometry(text)
    assert geometry.refused == (refused,)
    assert geometry._replace(refused=(), static_shared=None) == Geometry()


@pytest.mark.parametrize(
    "text", ["regs:512", "block:1024,1,1", "grid:2147483647,1,1", "shm:1048576"]
)
def test_the_limits_themselves_are_accepted(text: str) -> None:
    geometry = parse_geometry(text)
    assert geometry.refused == ()
    assert geometry != Geometry()


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        (
            "kind_src:pinned kind_dst:device size:4096 dest:3 async:1",
            Copy("pinned", "device", 3, 4096),
        ),
        ("size:112 dest:4 async:0", Copy(None, None, 4, 112)),
        ("kind:Unknown size:0 dest:512 async:1", Copy(None, None, 512, None)),
        ("kind:device num_bytes:77 async:1", Copy(None, None, None, 77)),
        ("size:0 dest:0 async:1", Copy(None, None, 0, 0)),
        ("size:-4", Copy()),
        ("size:99999999999999999999999999", Copy()),
        ("", Copy()),
    ],
)
def test_each_form_of_copy_details_is_read(text: str, copy: Copy) -> None:
    assert parse_copy(text) == copy
