"""Aliases for the arrays in columns and functions of this project."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
UInt64s = npt.NDArray[np.uint64]
UInt32s = npt.NDArray[np.uint32]
UInt8s = npt.NDArray[np.uint8]
UInt16s = npt.NDArray[np.uint16]
Float64s = npt.NDArray[np.float64]
Float32s = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]  # row numbers of a table
Bools = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int8]  # values of an enumeration
Strings = npt.NDArray[np.str_]
Bytes2D = npt.NDArray[np.uint8]  # (n, bytes of each)
Keys = npt.NDArray[
    np.int64 | np.int32 | np.int8 | np.uint64 | np.uint32 | np.uint16 | np.uint8 | np.bool_
]  # columns that identify rows
RowSlice: TypeAlias = "slice[int | None, int | None, int | None]"  # no generic slice in Python 3.11
NO_ROW: Final = -1  # row number for a missing row
