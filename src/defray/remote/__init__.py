"""A contract that is served elsewhere, asked over HTTP as if it were at hand: what ``defray.connect`` gives.

It needs nothing but the standard library.
"""

from defray.remote.client import Client

__all__ = ["Client"]
