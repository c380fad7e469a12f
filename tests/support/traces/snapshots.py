"""Memory snapshots of PyTorch from literal blocks and events."""

from __future__ import annotations

from typing import Any

MIB = 2**20
BASE = 0x7F00_0000_0000
SEGMENT_A, SEGMENT_B = BASE, BASE + 100 * MIB


def frames(*lines: tuple[str, int, str]) -> list[dict[str, Any]]:
    return [
        {"filename": file, "line": line, "name": name} for file, line, name in lines
    ]


LIBRARY = "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py"
WEIGHTS = frames(
    ("??", 0, "torch::unwind"),
    (LIBRARY, 110, "__init__"),
    ("/home/me/train.py", 9, "new"),
)
FORWARD = frames((LIBRARY, 125, "forward"), ("/home/me/train.py", 21, "step"))


def block(address: int, size: int, state: str = "active_allocated") -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": size,
        "state": state,
        "frames": WEIGHTS if state == "active_allocated" else [],
    }


def segment(address: int, size: int, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"device": 0, "address": address, "total_size": size, "blocks": list(blocks)}


def event(action: str, address: int, size: int, time_us: int | None) -> dict[str, Any]:
    made = {"action": action, "addr": address, "size": size * MIB, "stream": 0}
    made["frames"] = FORWARD if action == "alloc" else []
    return made if time_us is None else {**made, "time_us": 1_700_000_000_000 + time_us}


def snapshot(*, timed: bool = True) -> dict[str, Any]:
    """Weights of 10 and 30 MiB are older than the events, which free the latter.

    MiB by time, in us: 0: 40 in use of 60 reserved; 10: + 8 forward; 20: segment of
    100; 30: + 64 forward = 112, the peak; 40: the older 30 are given back and wait for
    a stream; 50: they are free; 60: the 64 are free.
    """
    events = [
        event("alloc", SEGMENT_A + 40 * MIB, 8, 10),
        event("segment_alloc", SEGMENT_B, 100, 20),
        event("alloc", SEGMENT_B, 64, 30),
        event("free_requested", SEGMENT_A + 10 * MIB, 30, 40),
        event("alloc", SEGMENT_B + 64 * MIB, 1, 45),
        event("free_completed", SEGMENT_A + 10 * MIB, 30, 50),
        event("free_requested", SEGMENT_B, 64, 60),
        event("free_completed", SEGMENT_B, 64, 60),
    ]
    if not timed:
        for each in events:
            del each["time_us"]
    return {
        "segments": [
            segment(
                SEGMENT_A,
                60 * MIB,
                block(SEGMENT_A, 10 * MIB),
                block(SEGMENT_A + 10 * MIB, 30 * MIB, "inactive"),
                block(SEGMENT_A + 40 * MIB, 8 * MIB),
                block(SEGMENT_A + 48 * MIB, 12 * MIB, "inactive"),
            ),
            segment(
                SEGMENT_B,
                100 * MIB,
                block(SEGMENT_B, 64 * MIB, "inactive"),
                block(SEGMENT_B + 64 * MIB, MIB),
                block(SEGMENT_B + 65 * MIB, 35 * MIB, "inactive"),
            ),
        ],
        "device_traces": [events, []],
    }
