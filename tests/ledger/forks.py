"""Running a function in a forked child."""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable


def in_child(run: Callable[[], str]) -> str:
    """What ``run`` returns in a forked child, or the traceback it ends in."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            gc.disable()  # what else the parent left behind is not for the child to take apart
            os.close(reading)
            os.write(writing, run().encode()[:4000])
            code = 0
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said
