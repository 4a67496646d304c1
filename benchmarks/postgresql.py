"""A real PostgreSQL server in a folder of its own, on a socket in that folder: for benchmarks and tests."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MISSING = "no PostgreSQL server is installed (apt-get install postgresql)"
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

    def kill(self) -> None:
        """SIGKILL to the server, whose processes end with it."""
        process = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(process, signal.SIGKILL)

    def restart(self, within: float = 30) -> None:
        """Start after a kill, once nothing of what was killed is left."""
        patient = time.monotonic() + within
        while True:
            try:
                return self.start()
            except subprocess.CalledProcessError:
                if time.monotonic() > patient:
                    raise
                time.sleep(0.2)

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
        with suppress(subprocess.CalledProcessError):  # a test had stopped it
            self.stop("immediate")
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
    """Another server, running; removed at the end of the process.  FileNotFoundError where none is
    installed."""
    where = binaries()
    if where is None:
        raise FileNotFoundError(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="defray-pg-"))
    if os.geteuid() == 0:
        postgres = pwd.getpwnam("postgres")
        os.chown(folder, postgres.pw_uid, postgres.pw_gid)
    folder.chmod(0o755)
    server = Server(where, folder)
    atexit.register(server.remove)
    server.make()
    return server


def ledger_section(dsn: str, schema: str) -> str:
    """The part of a contract that names a ledger in a database."""
    return f'[ledger]\nkind = "postgresql"\ndsn = "{dsn}"\nschema = "{schema}"\n'
