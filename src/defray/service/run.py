"""Serving an application until it is told to stop.

On SIGTERM or Ctrl-C no more connections are taken; asks at work have the grace time to end, then their scans
are cancelled, which their callers are told.  An ask whose answer is being written ends with it.  One process
serves: jobs and rates are its own, and scans run beside each other outside the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from defray.errors import BadInput
from defray.service.logs import event

SWITCH_SECONDS = 0.0005
"""After which one thread lets another go on: who computes a price does not hold up who is told one."""

LEAVING_SECONDS = 5
"""After asks were cancelled, until connections are cut."""


class Server(uvicorn.Server):
    """A server that cancels asks which outlast its grace time, before it cuts their connections."""

    def __init__(self, config: uvicorn.Config, grace: float, cancel: Callable[[], None]) -> None:
        super().__init__(config)
        self._grace, self._cancel = grace, cancel

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        event("stopping", grace_seconds=self._grace)
        timer = asyncio.get_running_loop().call_later(self._grace, self._cancel)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()


def serve(
    app: FastAPI,
    host: str,
    port: int,
    started: Callable[[str], None],
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until stopped: nobody can connect before ``ready`` has returned, and ``started`` is told the
    address.  Raises BadInput where it cannot listen."""
    service = app.state.service
    grace = service.limits.grace_seconds
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=int(grace) + LEAVING_SECONDS,
    )
    listening = _bound(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}"
    sys.setswitchinterval(SWITCH_SECONDS)
    with listening:
        ready()
        try:
            listening.listen(config.backlog)
        except OSError as error:  # another one that was bound to it as well, and was ready sooner
            raise _taken(host, port, error) from None
        event("started", url=url)
        started(url)
        signal.signal(
            signal.SIGTERM, signal.default_int_handler
        )  # uvicorn raises it again at its end
        with suppress(KeyboardInterrupt):
            Server(config, grace, service.jobs.stop_all).run(sockets=[listening])
    event("stopped")


def _bound(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError, OverflowError) as error:
        raise BadInput(f"cannot listen on {host:.80}", hint=str(error)) from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise _taken(host, port, error) from None
    return listening


def _taken(host: str, port: int, error: OSError) -> BadInput:
    return BadInput(
        f"cannot listen on {host:.80}, port {port}: {error.strerror}", hint="choose another --port"
    )
