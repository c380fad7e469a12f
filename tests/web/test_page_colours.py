"""The colour table: told apart by everyone, and readable."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stepscope.derive.step_time.owners import CATEGORIES as MEASURED
from stepscope.reporting.words.names import CATEGORY_NAMES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build_tools"))

from page_colours import CATEGORIES, MEMORY, TOKENS

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# Björn Ottosson's OKLab.
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
LEAST = {"light": 8.6, "dark": 10.4}
LEAST_OF_MEMORY = 26
READABLE = 4.5


def linear(colour: str) -> NDArray[np.float64]:
    encoded = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    low = encoded / 12.92
    return np.where(encoded <= 0.04045, low, ((encoded + 0.055) / 1.055) ** 2.4)


def oklab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    return TO_LAB @ np.cbrt(TO_CONES @ np.clip(rgb, 0, 1))


def least_distance(colours: list[str]) -> float:
    return min(
        100
        * float(np.linalg.norm(oklab(vision @ linear(a)) - oklab(vision @ linear(b))))
        for vision in VISIONS.values()
        for a, b in combinations(colours, 2)
    )


def luminance(colour: str) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_vision_tells_the_categories_apart(theme: str) -> None:
    fills = [getattr(token, theme).fill for token in TOKENS]
    assert round(least_distance(fills), 1) >= LEAST[theme]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_vision_tells_the_kinds_of_memory_apart(theme: str) -> None:
    fills = [getattr(token, theme).fill for token in MEMORY]
    assert least_distance(fills) >= LEAST_OF_MEMORY


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_on_a_colour_can_be_read(theme: str) -> None:
    for token in (*TOKENS, *MEMORY):
        ink = getattr(token, theme)
        assert contrast(ink.fill, ink.text) >= READABLE, token.name


def test_every_category_is_drawn_and_named() -> None:
    names = [category.name for category in CATEGORIES]
    assert sorted(names) == sorted(MEASURED)
    assert set(names) == set(CATEGORY_NAMES)
    known = {token.name for token in TOKENS}
    assert all(category.token in known for category in CATEGORIES)
