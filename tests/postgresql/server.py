"""A real PostgreSQL server in a folder of its own, on a socket in that folder."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

DEBIAN = Path("/usr/lib/postgresql")
SETTINGS = "listen_addresses = ''\nmax_connections = 200\nshared_buffers = 64MB\nlog_min_messages = fatal\n"


@dataclass(frozen=True)
class Server:
    """``OWNER`` may make schemas in the database; ``SERVICE`` is given rights by tests."""

    binaries: Path
    folder: Path

    OWNER = "owner"
    SERVICE = "service"

    def dsn(self, user: str = OWNER) -> str:
        return f"host={self.folder} dbname=ledgers user={user}"

    def start(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-l", self.folder / "log", "-w", "start")

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "-D", self._data, "-m", how, "-w", "stop")

    def sql(self, text: str, *, database: str = "ledgers") -> str:
        """What psql says as the superuser."""
        command = ("psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.folder)
        return self._run(*command, "-U", "postgres", "-d", database, "-c", text)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def make(self) -> None:
        self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8")
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.write(f"{SETTINGS}unix_socket_directories = '{self.folder}'\n")
        self.start()
        self.sql(f"CREATE ROLE {self.OWNER} LOGIN", database="postgres")
        self.sql(f"CREATE ROLE {self.SERVICE} LOGIN", database="postgres")
        self.sql(f"CREATE DATABASE ledgers OWNER {self.OWNER}", database="postgres")

    def remove(self) -> None:
        try:
            self.stop("immediate")
        except subprocess.CalledProcessError:
            pass  # a test had stopped it
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, command: str, *rest: object) -> str:
        """Run a program of the server's, which refuses to be run by root."""
        words = [str(self.binaries / command), *map(str, rest)]
        if os.geteuid() == 0:
            words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]
        done = subprocess.run(
            words, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL, cwd="/", timeout=60,
        )  # fmt: skip
        return done.stdout.strip()


def binaries() -> Path | None:
    """The newest server that is installed."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    where = str(found[-1]) if found else shutil.which("initdb")
    return None if where is None else Path(where).parent


def new_server() -> Server:
    """Another server, running; removed at the end of the process."""
    where = binaries()
    if where is None:
        reason = "no PostgreSQL server is installed (apt-get install postgresql)"
        if "CI" in os.environ:
            pytest.fail(reason)
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="defray-pg-"))
    if os.geteuid() == 0:
        postgres = pwd.getpwnam("postgres")
        os.chown(folder, postgres.pw_uid, postgres.pw_gid)
    folder.chmod(0o755)
    server = Server(where, folder)
    atexit.register(server.remove)
    server.make()
    return server


@functools.cache
def the_server() -> Server:
    """The one server of this process, for tests that do not stop it."""
    return new_server()


def new_schema() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def ledger_section(dsn: str | None = None, schema: str | None = None) -> str:
    """The part of a contract that names a new ledger."""
    where = dsn or the_server().dsn()
    return f'[ledger]\nkind = "postgresql"\ndsn = "{where}"\nschema = "{schema or new_schema()}"\n'
