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
    "cores": "all cores",
    "half_cores": "half of the cores",
    "temporary_folder": "an empty folder",
}


def render() -> str:
    """Write a table of all knobs, in the order in which they are tried."""
    lines = [
        "| knob | for | values | answers | what to write |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(_cells(knob))} |" for knob in load_knobs()),
    ]
    return "\n".join(lines)


def _cells(knob: Knob) -> tuple[str, ...]:
    notes = ["on a GPU"] if knob.device == "gpu" else []
    notes += ["results may differ"] if knob.numerics else []
    values = ", ".join(_NAMED.get(value, f"`{value}`") for value in knob.values)
    write = "; ".join(line.format(value="VALUE", last="LAST") for line in knob.write)
    return (
        f"`{knob.id}`",
        ", ".join([_FRAMEWORKS[knob.framework], *notes]),
        values,
        ", ".join(f"`{rule}`" for rule in knob.rules),
        f"`{write}`",
    )


def with_knobs(page: str) -> str:
    """Put the table between its marks."""
    return between_marks(page, "knobs", render())


if __name__ == "__main__":
    PAGE.write_text(with_knobs(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
