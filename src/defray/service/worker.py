"""``python -m defray.service.worker FD``: a process that buys, for the server at the other end of a socket.

It is sent a contract, says None when that is open, then gets one ask at a time.  To each it says numbers
(the progress) and at last a document or an error.  The number of an ask, sent meanwhile, cancels it.  The
server's end is the end of it too: an ask that is not being written then is cancelled.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

from defray.config.opening import wire
from defray.errors import DefrayError
from defray.service import logs
from defray.service.workers import Asked, warm
from defray.session import Session, incident_of


class Stops:
    """Whether one ask was cancelled; asked from several threads."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection, self._number = connection, number
        self._lock = Lock()
        self._stopped = False

    def __call__(self) -> bool:
        with self._lock:
            while not self._stopped and self._connection.poll():
                try:
                    self._stopped = self._connection.recv() == self._number
                except (EOFError, OSError):
                    self._stopped = True
        return self._stopped


def work(connection: Connection) -> None:
    """Until the other end is closed."""
    try:
        session = Session(wire(connection.recv()))
    except DefrayError as error:
        connection.send(error)
        return
    with session:
        warm(session)
        connection.send(None)
        while True:
            asked = connection.recv()
            if isinstance(asked, Asked):  # all else came too late to cancel what it was sent for
                connection.send(said(session, asked, connection))


def said(session: Session, asked: Asked, connection: Connection) -> dict[str, Any] | DefrayError:
    """The document of an answer, or why there is none."""
    try:
        answer = session.on_behalf_of(asked.principal).ask(
            asked.sql,
            **asked.arguments,
            progress=connection.send,
            cancelled=Stops(connection, asked.number),
        )
        return answer.to_dict()
    except DefrayError as error:
        return error.with_traceback(None)
    except Exception as fault:
        return incident_of(fault)


def main() -> None:
    # told to stop with all its group, it still ends what it is at: the server says when it is enough
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logs.to()
    with (
        Connection(int(sys.argv[1])) as connection,
        suppress(EOFError, BrokenPipeError, ConnectionResetError),
    ):
        work(connection)


if __name__ == "__main__":
    main()
