"""Write the table of the knobs of `stepscope try` into their page.

python build_tools/knob_list.py
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rule_list import between_marks

from stepscope.trials.knobs import load_knobs

if TYPE_CHECKING:
    from stepscope.trials.knobs import Knob

PAGE = Path(__file__).resolve().parents[1] / "docs" / "try.md"
_FRAMEWORKS = {
    "any": "any program",
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "jax": "JAX",
}
_NAMED: dict[object, str] = {
    "": "–",
    "cores": "all cores",
    "half_cores": "half of the cores",
    "folder": "an empty folder",
}


def render() -> str:
    """Write a table of all knobs, in the order in which they are tried."""
    lines = [
        "| knob | for | values | results may differ | answers | what to write |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(_cells(*row))} |" for row in load_knobs().items()),
    ]
    return "\n".join(lines)


def _cells(name: str, knob: Knob) -> tuple[str, ...]:
    lines = knob.write or (knob.change,)
    write = "; ".join(line.format(value="VALUE", last="LAST") for line in lines)
    return (
        f"`{name}`",
        _FRAMEWORKS[name.partition(".")[0]],
        ", ".join(_NAMED.get(value, f"`{value}`") for value in knob.set[3:]),
        "yes" if knob.numerics else "",
        ", ".join(f"`{rule}`" for rule in knob.rules),
        f"`{write}`",
    )


def with_knobs(page: str) -> str:
    """Put the table between its marks."""
    return between_marks(page, "knobs", render())


if __name__ == "__main__":
    PAGE.write_text(with_knobs(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
