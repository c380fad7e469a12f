"""The one colour table: what the page draws, and in which order.

On every page a colour means a step-time category. A search chose the colours whose
smallest OKLab distance over normal, protan, deutan and tritan vision is largest; a test
computes the distances again. Style sheet and legend are made from this table.

Definition: docs/page.md#charts-and-tables.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Ink(NamedTuple):
    """A colour and the colour of text on it."""

    fill: str
    text: str


class Token(NamedTuple):
    """A colour of the page in both themes."""

    name: str
    light: Ink
    dark: Ink


class Category(NamedTuple):
    """A step-time category as it is drawn.

    Attributes:
        name: Name of the category in the JSON.
        token: Name of its colour.
        hatched: Whether it is drawn with stripes, beside a category of one colour.
        sentence: What time the category holds.
    """

    name: str
    token: str
    hatched: bool
    sentence: str


_WHITE, _BLACK = "#ffffff", "#000000"

TOKENS: Final[tuple[Token, ...]] = (
    Token("compute", Ink("#2e64df", _WHITE), Ink("#6363d6", _WHITE)),
    Token("collective", Ink("#9b190a", _WHITE), Ink("#fe403b", _BLACK)),
    Token("output", Ink("#279faa", _BLACK), Ink("#95c9da", _BLACK)),
    Token("d2d", Ink("#802789", _WHITE), Ink("#9c7aa7", _BLACK)),
    Token("input", Ink("#bd9c06", _BLACK), Ink("#f6b32d", _BLACK)),
    Token("launch", Ink("#687817", _WHITE), Ink("#eae8bb", _BLACK)),
    Token("host", Ink("#116b54", _WHITE), Ink("#40b88f", _BLACK)),
    Token("compile", Ink("#9977f9", _BLACK), Ink("#c48cfc", _BLACK)),
    Token("idle", Ink("#acc1c8", _BLACK), Ink("#5d5c61", _WHITE)),
)

#: Memory is not time, so it has a ramp of its own.
MEMORY: Final[tuple[Token, ...]] = (
    Token("stack", Ink("#3d2a5c", _WHITE), Ink("#e9dcff", _BLACK)),
    Token("heap", Ink("#8a7bb8", _BLACK), Ink("#9484c8", _BLACK)),
    Token("free", Ink("#dfe4ea", _BLACK), Ink("#39404c", _WHITE)),
)

#: From the bottom of a column to its top: work first, unexplained time last.
CATEGORIES: Final[tuple[Category, ...]] = (
    Category(
        "device_compute_32",
        "compute",
        hatched=False,
        sentence="Kernels that compute in 32 bits or more.",
    ),
    Category(
        "device_compute_16",
        "compute",
        hatched=True,
        sentence="Kernels that compute in 16 bits or fewer.",
    ),
    Category(
        "device_collectives",
        "collective",
        hatched=False,
        sentence="Communication between devices while the device computes nothing.",
    ),
    Category(
        "device_to_device",
        "d2d",
        hatched=False,
        sentence="Copies within and between devices, and memsets.",
    ),
    Category(
        "output",
        "output",
        hatched=False,
        sentence="Copies from the device to the host that overlap no other work.",
    ),
    Category(
        "input",
        "input",
        hatched=False,
        sentence="Waiting for input, and copies from the host to the device.",
    ),
    Category(
        "kernel_launch",
        "launch",
        hatched=False,
        sentence="Launch calls, and waiting until launched work begins.",
    ),
    Category(
        "host_compute",
        "host",
        hatched=False,
        sentence="Work on the host while the device has no work.",
    ),
    Category(
        "compilation",
        "compile",
        hatched=False,
        sentence="Tracing and compiling while the device has no work.",
    ),
    Category(
        "other",
        "idle",
        hatched=False,
        sentence="All other time: gaps between steps, waiting, unexplained time.",
    ),
)
