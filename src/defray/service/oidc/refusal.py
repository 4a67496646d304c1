"""One refusal for every token of an issuer that does not work, so that it tells nothing of who is there."""

from __future__ import annotations

from defray.errors import Unauthorized


def refused(reason: str) -> Unauthorized:
    """The same for all callers; the ``reason``, which holds nothing of the token, is for the log."""
    return Unauthorized(
        "this token does not work here",
        hint="get a new one where you sign in, or ask the curator to let you in",
        reason=reason,
    )
