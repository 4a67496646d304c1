"""``defray serve``: the contract over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from defray.cli import screen
from defray.cli.app import Json, Named, contract_path
from defray.cli.screen import say, show
from defray.errors import MissingExtra


def serve(
    contract: Named = None,
    *,
    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="The port; 0 takes a free one.")] = 8310,
    limits: Annotated[
        Path | None,
        Parameter(
            help="A TOML file: its table [server] sets limits, [oidc] names an issuer of tokens."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Answer several analysts over HTTP until stopped."""
    from defray.access import Access
    from defray.config.opening import wire
    from defray.config.reader import read_contract
    from defray.service.loopback import is_loopback
    from defray.service.settings import Settings
    from defray.service.workers import Workers
    from defray.session import Session

    settings = Settings() if limits is None else Settings.read(limits)
    declared = read_contract(contract_path(contract))
    engine = wire(declared)
    with Session(engine) as session, Workers(declared, session) as workers:
        try:  # while a worker begins, since this takes half of the time to start
            from defray.service import app, logs, run
            from defray.service.authenticator import verifier_of
        except ImportError:
            raise MissingExtra(
                "serving needs FastAPI, uvicorn and Jinja2", hint="pip install 'defray[server]'"
            ) from None
        verifier = None if settings.oidc is None else verifier_of(settings.oidc)
        access = Access(engine.ledger)
        if not is_loopback(host):
            _warn(
                f"{host} can be reached from other machines: tokens and answers are readable on the way "
                "unless a proxy in front speaks TLS"
            )
        if not access.analysts():
            _warn("nobody may ask yet; defray analyst add NAME lets somebody in")
        logs.to()
        built = app.build(session, access, settings.limits, verifier, workers)
        run.serve(built, host, port, _started, workers.ready)


def _warn(text: str) -> None:
    screen.err().print(text, style="yellow", soft_wrap=True)


def _started(url: str) -> None:
    if screen.json_wanted():
        show({"url": url})
    else:
        say(f"serving at {url}/ for browsers and {url}/v1 for programs; Ctrl-C stops", "bold")
    screen.out().file.flush()
