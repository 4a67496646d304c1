"""A line to a PostgreSQL server that breaks at a commit, in one of the ways in which lines break."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Literal

How = Literal["before", "after", "hanging"]
COMMIT = b"COMMIT\0"


class Proxy:
    """Forwards until ``breaks`` is set.  Then the next commit is not made (``before``), made without the
    client learning of it (``after``), or made late, by a server that does not know yet that its client is
    gone (``hanging``)."""

    def __init__(self, server: Path) -> None:
        self._server = str(server / ".s.PGSQL.5432")
        self._folder = tempfile.TemporaryDirectory(prefix="defray-proxy-")
        self.folder = Path(self._folder.name)
        self.breaks: How | None = None
        self.broken = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            threading.Thread(target=self._up, args=(client, server), daemon=True).start()
            threading.Thread(target=self._down, args=(server, client), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.breaks is not None and COMMIT in data:
                    how, self.breaks = self.breaks, None
                    self.broken += 1
                    if how == "after":
                        hang_up(client)
                        server.sendall(data)
                    elif how == "hanging":
                        hang_up(client)
                        time.sleep(1)
                        server.sendall(data)
                    else:
                        hang_up(server)
                        hang_up(client)
                    time.sleep(0.2)
                    break
                server.sendall(data)
        hang_up(server)

    def _down(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
        hang_up(client)


def hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
