"""The one JSON spelling of a value, over which hashes and keys are taken."""

from __future__ import annotations

import json
from typing import Any


def canonical(data: Any) -> bytes:
    """Sorted keys, no blanks, ASCII, no nan: equal values have equal bytes.

    >>> canonical({"b": [1, 2], "a": None})
    b'{"a":null,"b":[1,2]}'
    """
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")
