"""Names of the element types that the column `allocations.dtype` stores as numbers.

The numbers are those of the enumeration `DataType` in TensorFlow's `types.proto`. The
names are those of the enumeration in lower case, as in recorded results.
"""

from __future__ import annotations

from typing import Final

import polars as pl

#: Number → name; 0 is an unknown type and has no name.
DATA_TYPES: Final = dict(
    enumerate(
        (
            *("float", "double", "int32", "uint8", "int16", "int8", "string"),
            *("complex64", "int64", "bool", "qint8", "quint8", "qint32", "bfloat16"),
            *("qint16", "quint16", "uint16", "complex128", "half", "resource"),
            *("variant", "uint32", "uint64", "float8_e5m2", "float8_e4m3fn"),
            *("float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int4"),
            *("uint4", "int2", "uint2", "float4_e2m1fn"),
        ),
        start=1,
    )
)
#: Added to the number of a type to get the number of a reference to this type.
_REFERENCE: Final = 100


def data_type_name(number: pl.Expr) -> pl.Expr:
    """Return the name of each number: null for 0, `type 57` for a number not listed."""
    names = {
        **DATA_TYPES,
        **{_REFERENCE + code: f"{name}_ref" for code, name in DATA_TYPES.items()},
    }
    new = pl.format("type {}", number)
    return (
        pl.when(number != 0)
        .then(number.replace_strict(names, default=None, return_dtype=pl.String))
        .fill_null(pl.when(number != 0).then(new))
    )
