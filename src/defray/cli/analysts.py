"""``defray analyst``: who may ask, with which share, by which tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from defray.access import FOREVER, Access, newcomer, parse_share, scopes_for
from defray.cli.answers import new_table
from defray.cli.app import Json, Named, contract_of
from defray.cli.books import existing, ledger_of
from defray.cli.screen import json_wanted, say, show
from defray.config.opening import open_ledger
from defray.core.numbers import show_number
from defray.core.principals import Principal
from defray.errors import BadInput
from defray.ledger.beside import Token
from defray.shares import check_shareable
from defray.standing import check_promises

_UNITS: Final = {"h": 3600, "d": 86400, "w": 604800}

Who = Annotated[str, Parameter(help="The name: a-z, 0-9, '.', '_' and '-', a letter first.")]
Scopes = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        help="What the token allows: quote, ask, read, curate (may be repeated, or quote,read).",
    ),
]
Expires = Annotated[
    str | None, Parameter(help="How long the token works: 12h, 90d, 8w, or never (the default).")
]
ExpiresAsBefore = Annotated[
    str | None,
    Parameter(help="How long it works: 12h, 90d, 8w, never (default: as long as the others)."),
]


def add(
    name: Who,
    /,
    *,
    share: Annotated[
        str | None, Parameter(help="An analyst's share of the contract: 0.25, 1/3 (default: 0).")
    ] = None,
    role: Annotated[
        Literal["analyst", "curator"], Parameter(help="A curator may do all, and has no share.")
    ] = "analyst",
    scopes: Scopes = None,
    expires: Expires = None,
    contract: Named = None,
    json: Json = False,
) -> None:
    """Add somebody, with a first token; makes the ledger where there is none yet."""
    chosen, lasting = scopes_for(role, _listed(scopes)), _lifetime(expires)
    newcomer(name, role, share)  # before there is a ledger
    terms = contract_of(contract)
    ledger = open_ledger(terms)
    try:
        check_promises(terms, ledger)
        access = Access(ledger)
        if share is not None and parse_share(share):
            check_shareable(terms)
        access.add(name, role, share)
        _tell_token(access, *access.issue(name, chosen, lasting))
    finally:
        ledger.close()


def list_(*, contract: Named = None, json: Json = False) -> None:
    """Everybody, what is unassigned, and all tokens."""
    with ledger_of(contract_of(contract)) as ledger:
        access = Access(ledger)
        people, tokens, reserve = access.analysts(), access.tokens(), access.reserve()
    if json_wanted():
        show(
            {
                "analysts": [person.to_dict() for person in people],
                "reserve": float(reserve),
                "tokens": [token.to_dict() for token in tokens],
            }
        )
        return
    if not people:
        say("nobody yet; add somebody: defray analyst add ana --share 0.25")
        return
    _show_people(people)
    say(f"{show_number(reserve)} of the contract is unassigned")
    if tokens:
        _show_tokens(tokens)


def suspend(name: Who, /, *, contract: Named = None, json: Json = False) -> None:
    """Stop all tokens of somebody, until resumed."""
    with _access(contract) as access:
        _tell(access.suspend(name), f"{name} is suspended: no token of {name} works until resumed")


def resume(name: Who, /, *, contract: Named = None, json: Json = False) -> None:
    """Let somebody who was suspended go on."""
    with _access(contract) as access:
        _tell(access.resume(name), f"{name} is active")


def share(
    name: Who,
    share: Annotated[str, Parameter(help="A number from 0 to 1: 0.3, 1/3.")],
    /,
    *,
    contract: Named = None,
    json: Json = False,
) -> None:
    """Give an analyst another share of the contract."""
    if parse_share(share):
        check_shareable(contract_of(contract))
    with _access(contract) as access:
        changed = access.set_share(name, share)
        left = show_number(access.reserve())
        _tell(changed, f"{name} has {_share(changed)} of the contract; {left} is unassigned")


def issue(
    name: Who,
    /,
    *,
    scopes: Scopes = None,
    expires: Expires = None,
    contract: Named = None,
    json: Json = False,
) -> None:
    """Give somebody one more token."""
    lasting = _lifetime(expires)
    with _access(contract) as access:
        _tell_token(access, *access.issue(name, _listed(scopes), lasting))


def rotate(
    name: Who,
    /,
    *,
    scopes: Scopes = None,
    expires: ExpiresAsBefore = None,
    contract: Named = None,
    json: Json = False,
) -> None:
    """Give somebody a new token and revoke all others."""
    lasting = _lifetime(expires)
    with _access(contract) as access:
        _tell_token(access, *access.rotate(name, _listed(scopes), lasting))


def revoke(
    token_id: Annotated[str, Parameter(help="As defray analyst list shows it.")],
    /,
    *,
    contract: Named = None,
    json: Json = False,
) -> None:
    """Stop one token for ever, by its id."""
    with _access(contract) as access:
        token = access.revoke(token_id)
    if json_wanted():
        show(token.to_dict())
    else:
        say(f"the token {token.id} of {token.principal} is revoked and never works again")


@contextmanager
def _access(contract: Any) -> Iterator[Access]:
    with existing(contract_of(contract)) as ledger:
        yield Access(ledger)


def _listed(scopes: list[str] | None) -> list[str] | None:
    """Scopes that are repeated, or joined by commas."""
    if scopes is None:
        return None
    return [part.strip() for scope in scopes for part in scope.split(",")]


def _lifetime(text: str | None) -> timedelta | None:
    """How long a token works, as it is typed.  Raises BadInput.

    >>> _lifetime("90d"), _lifetime(None)
    (datetime.timedelta(days=90), None)
    """
    if text is None:
        return None
    if text == "never":
        return FOREVER
    typed = re.fullmatch(r"([1-9][0-9]{0,6})([hdw])", text)
    if typed is None:
        raise BadInput(f"--expires must be like 90d, not {text:.40}", hint="12h, 90d, 8w or never")
    return timedelta(seconds=int(typed[1]) * _UNITS[typed[2]])


def _tell(principal: Principal, words: str) -> None:
    if json_wanted():
        show(principal.to_dict())
    else:
        say(words)


def _tell_token(access: Access, text: str, token: Token) -> None:
    """A token is shown here and nowhere else."""
    (principal,) = [p for p in access.analysts() if p.name == token.principal]
    if json_wanted():
        kept = {k: v for k, v in token.to_dict().items() if k not in ("principal", "revoked")}
        show({**principal.to_dict(), "token": {"text": text, **kept}})
        return
    who = f"{principal.name} is {'an' if principal.role == 'analyst' else 'a'} {principal.role}"
    if principal.share is not None:
        left = show_number(access.reserve())
        who += f" with {_share(principal)} of the contract ({left} is unassigned)"
    say(who, "bold")
    say(f"token {token.id} allows {_scopes(token)}; {_until(token)}:")
    say(f"  {text}")
    say("it is shown this once and kept nowhere: pass it on now, as you would a password", "yellow")


def _show_people(people: list[Principal]) -> None:
    table = new_table()
    for column in ("name", "role", "share", "state"):
        table.add_column(column, justify="right" if column == "share" else "left")
    for person in people:
        state = "active" if person.active else "suspended"
        table.add_row(person.name, person.role, _share(person), state)
    say(table)


def _show_tokens(tokens: list[Token]) -> None:
    table = new_table()
    for column in ("token", "of", "allows", "made", "state"):
        table.add_column(column)
    for token in tokens:
        table.add_row(
            token.id, token.principal, _scopes(token), f"{token.made:%Y-%m-%d}", _state(token)
        )
    say(table)


def _share(principal: Principal) -> str:
    return "" if principal.share is None else show_number(principal.share)


def _scopes(token: Token) -> str:
    return ", ".join(sorted(token.scopes))


def _state(token: Token) -> str:
    if token.revoked is not None:
        return f"revoked {token.revoked:%Y-%m-%d}"
    if token.expires is not None and not token.works(datetime.now(UTC)):
        return f"expired {token.expires:%Y-%m-%d}"
    return _until(token)


def _until(token: Token) -> str:
    if token.expires is None:
        return "works until revoked"
    return f"works until {token.expires:%Y-%m-%d %H:%M} UTC"
