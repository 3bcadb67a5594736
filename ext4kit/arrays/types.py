"""Aliases for the arrays in columns and functions of this project.

An alias states its dtype in addition to the array type. `Table` reads the dtype from there, because
the run-time form of `npt.NDArray[...]` differs between versions of NumPy.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Int64s = Annotated[npt.NDArray[np.int64], np.int64]
Int32s = Annotated[npt.NDArray[np.int32], np.int32]
UInt64s = Annotated[npt.NDArray[np.uint64], np.uint64]
UInt32s = Annotated[npt.NDArray[np.uint32], np.uint32]
UInt8s = Annotated[npt.NDArray[np.uint8], np.uint8]
UInt16s = Annotated[npt.NDArray[np.uint16], np.uint16]
Float64s = Annotated[npt.NDArray[np.float64], np.float64]
Float32s = Annotated[npt.NDArray[np.float32], np.float32]
Rows = Annotated[npt.NDArray[np.intp], np.intp]  # row numbers of a table
Bools = Annotated[npt.NDArray[np.bool_], np.bool_]
Codes = Annotated[npt.NDArray[np.int8], np.int8]  # values of an enumeration
Strings = Annotated[npt.NDArray[np.str_], np.str_]
Bytes2D = Annotated[npt.NDArray[np.uint8], np.uint8]  # (n, bytes per row)
Keys = npt.NDArray[
    np.int64 | np.int32 | np.int8 | np.uint64 | np.uint32 | np.uint16 | np.uint8 | np.bool_
]  # columns that identify rows
RowSlice: TypeAlias = "slice[int | None, int | None, int | None]"  # no generic slice in Python 3.11
NO_ROW: Final = -1  # row number for a missing row
