"""Types of arrays, by what they hold; annotations say the shapes where these matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]
U8 = NDArray[np.uint8]
Bools = NDArray[np.bool_]
