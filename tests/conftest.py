"""Settings for the whole suite."""

from __future__ import annotations

import os

from hypothesis import settings

# Machines differ in speed, so no example has a deadline; a build server tries the same examples each time.
settings.register_profile("here", deadline=None)
settings.register_profile("build server", deadline=None, derandomize=True)
settings.load_profile("build server" if os.environ.get("CI") else "here")
