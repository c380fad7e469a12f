"""Compiled programs: the HLO modules that a profile holds, and their instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.lost import or_lost
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.trace.stats import PLACE_BYTES, PLACE_TEXT
from stepscope.trace.tables import HLO_OPS
from stepscope.unavailable import Unavailable
from stepscope.xspace.wire import MalformedMessage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.hlo import HloInstruction
    from stepscope.formats.xplane.decoded.recording import Recording

#: Both spellings occur.
_PROTO_KEYS: Final = ("Hlo Proto", "HLO Proto")

_NO_HLO: Final = Unavailable(
    code="NO_HLO",
    reason="The profile holds no HLO module.",
    remedy=Remedy.RECORD_HLO,
)


class Programs(Frozen, frozen=True, eq=True):
    """What the HLO modules of a file give.

    Attributes:
        ops: Table `hlo_ops`, the instructions by program; or why there are none.
        malformed: How many modules cannot be read.
    """

    ops: pl.DataFrame | Unavailable
    malformed: int


def read_programs(recording: Recording) -> Programs:
    """Read every program whose HLO is in the file."""
    programs, malformed = _parsed(recording)
    if not programs:
        if malformed:
            return Programs(_all_malformed(malformed), malformed)
        return Programs(or_lost(_NO_HLO, recording.damaged_at), malformed)
    rows = [
        (program, module, *instruction)
        for program, module, instructions in programs
        for instruction in instructions
    ]
    # Columns are declared in the order of the instruction's fields.
    ops = pl.DataFrame(rows, schema=HLO_OPS.dtypes(), orient="row")
    return Programs(ops, malformed)


def _all_malformed(count: int) -> Unavailable:
    return Unavailable(
        code="CORRUPT",
        reason=f"None of the {count} HLO modules in the file can be read.",
        remedy="Copy the profile again in binary mode, or record again.",
    )


def program_modules(
    recording: Recording, program: NDArray[np.int64], present: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Return the handle of each module's name by program id, -1 if not recorded."""
    names = {
        number: recording.handle(listed.module)
        for number, listed in recording.programs.items()
    }
    distinct, inverse = np.unique(program, return_inverse=True)
    found = [names.get(number, -1) for number in distinct.tolist()]
    handles = np.array(found, dtype=np.int32)[inverse]
    return np.where(present, handles, np.int32(-1))


def _parsed(
    recording: Recording,
) -> tuple[list[tuple[int, str, list[HloInstruction]]], int]:
    """(Program, module, instructions) in order of programs, and how many are broken."""
    programs = []
    malformed = 0
    values = recording.type_values(_PROTO_KEYS)
    for program, (name, row) in sorted(recording.programs.items()):
        for key in _PROTO_KEYS:
            if values[key].kind[row] not in (PLACE_BYTES, PLACE_TEXT):
                continue
            # Only where a program was recorded.
            from stepscope.formats.hlo import parse_module  # noqa: PLC0415

            place = int(values[key].value[row])
            data = recording.space.data[place : place + int(values[key].length[row])]
            try:
                module, instructions = parse_module(data.tobytes())
            except MalformedMessage:
                malformed += 1
                continue
            programs.append((program, module or name, instructions))
            break
    return programs, malformed
