"""Compiled programs: the HLO modules that a profile holds, and their instructions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from stepscope.formats.hlo import parse_module
from stepscope.formats.xplane.damaged import or_lost
from stepscope.trace.hlo_ops import HLO_OPS
from stepscope.trace.stats import PLACE_BYTES, PLACE_TEXT
from stepscope.unavailable import Unavailable
from stepscope.xspace.wire import MalformedMessage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.formats.hlo import HloInstruction
    from stepscope.formats.xplane.recording import Recording

__all__ = ["hlo_ops", "malformed_programs", "program_modules"]

_PLANE: Final = "/host:metadata"
#: Both spellings occur.
_PROTO_KEYS: Final = ("Hlo Proto", "HLO Proto")
_NUMBERED: Final = re.compile(r"(?P<module>.*)\((?P<program>\d{1,20})\)\Z", re.DOTALL)

_NO_HLO: Final = Unavailable(
    code="NO_HLO",
    reason="The profile holds no HLO module.",
    remedy="Record a program that XLA compiles (JAX, or tf.function with "
    "jit_compile=True) with enable_hlo_proto on.",
)


def hlo_ops(recording: Recording) -> pl.DataFrame | Unavailable:
    """The instructions of every program whose HLO is in the file, by program."""
    programs, malformed = _parsed(recording)
    if not programs:
        if malformed:
            return Unavailable(
                code="CORRUPT",
                reason=f"None of the {malformed} HLO modules in the file can be read.",
                remedy="Copy the profile again in binary mode, or record again.",
            )
        return or_lost(recording, _NO_HLO)
    rows = [
        (program, module, *instruction)
        for program, module, instructions in programs
        for instruction in instructions
    ]
    # Columns are declared in the order of the instruction's fields.
    return pl.DataFrame(rows, schema=HLO_OPS.dtypes(), orient="row")


def malformed_programs(recording: Recording) -> int:
    """How many HLO modules cannot be read."""
    return _parsed(recording)[1]


def program_modules(
    recording: Recording, program: NDArray[np.int64], present: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Handles of modules' names by program id, -1 where the file does not tell."""
    names = {
        number: recording.intern(module)
        for number, (module, _) in _listed(recording).items()
    }
    distinct, inverse = np.unique(program, return_inverse=True)
    found = [names.get(number, -1) for number in distinct.tolist()]
    handles = np.array(found, dtype=np.int32)[inverse]
    return np.where(present, handles, np.int32(-1))


def _listed(recording: Recording) -> dict[int, tuple[str, int]]:
    """Program id → module's name and event type, for every program listed."""
    space = recording.space
    planes = [row for row, it in enumerate(space.planes) if it.name == _PLANE]
    types = space.event_types
    listed = np.flatnonzero(np.isin(types.plane, planes) & ~types.unknown)
    numbers, has_number = recording.type_values(["program_id"])["program_id"].integers()
    found = {}
    for row in listed.tolist():
        name = str(recording.type_names[row])
        numbered = _NUMBERED.match(name)
        if has_number[row]:
            program = int(numbers[row])
        elif numbered is not None:
            program = _signed(int(numbered["program"]))
        else:
            program = int(types.id[row])
        found[program] = (numbered["module"] if numbered else name, row)
    return found


def _parsed(
    recording: Recording,
) -> tuple[list[tuple[int, str, list[HloInstruction]]], int]:
    """(Program, module, instructions) in order of programs, and how many are broken."""
    programs = []
    malformed = 0
    values = recording.type_values(_PROTO_KEYS)
    for program, (name, row) in sorted(_listed(recording).items()):
        for key in _PROTO_KEYS:
            if values[key].kind[row] not in (PLACE_BYTES, PLACE_TEXT):
                continue
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


def _signed(number: int) -> int:
    """The signed 64 bits of an id that the name shows unsigned."""
    wrapped = number & (2**64 - 1)
    return wrapped - 2**64 if wrapped >= 2**63 else wrapped
