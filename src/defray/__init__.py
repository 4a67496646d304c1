"""Defray: a differentially private query server and library that pays only for what is not known yet.

>>> import defray
>>> contract = defray.demo()
>>> answer = contract.ask("SELECT COUNT(*) FROM randhie WHERE year = 1", within=200, confidence=0.95)
>>> answer.met, answer.reused_rho
(True, 0.0)
>>> contract.ask("SELECT COUNT(*) FROM randhie WHERE year <= 1", within=200).charged_rho  # the same rows
0.0
>>> contract.close()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from defray import errors
from defray.errors import DefrayError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from defray.core.answer import Answer, Quote, Row
    from defray.remote import Client
    from defray.session import Session

__version__ = "0.1.0"

__all__ = [
    "Answer", "Client", "DefrayError", "Quote", "Row", "Session", "connect", "demo", "errors", "open",
]  # fmt: skip


def open(path: str | Path = "contract.toml") -> Session:
    """Put a contract file to work.  Raises :class:`~defray.errors.ContractError` with every mistake."""
    from defray.config.opening import open_contract

    return open_contract(path)


def connect(
    url: str,
    token: str | Callable[[], str],
    *,
    timeout: float = 30.0,
    retries: int = 4,
    insecure: bool = False,
) -> Client:
    """A contract that is served elsewhere (``defray serve``), with the methods of a local one.

    ``token`` may be a function that gives one, called for each request: tokens of an OIDC issuer expire.
    ``timeout`` (s) is for one exchange over the network, ``retries`` how often a request is sent again.  A
    token over plain http, beyond this machine, needs ``insecure=True``.  Raises
    :class:`~defray.errors.BadInput`; nothing is sent yet.
    """
    from defray.remote import Client

    return Client(url, token, timeout=timeout, retries=retries, insecure=insecure)


def demo() -> Session:
    """A fresh contract over the RAND Health Insurance data that ships with Defray.

    Its ledger lies in a temporary folder and is gone when the session is closed.
    """
    from defray.example import open_demo

    return open_demo()


def __getattr__(name: str) -> object:
    if name in ("Answer", "Quote", "Row"):
        from defray.core import answer

        return getattr(answer, name)
    if name == "Client":
        from defray.remote import Client

        return Client
    if name == "Session":
        from defray.session import Session

        return Session
    raise AttributeError(f"module 'defray' has no attribute {name!r}")
