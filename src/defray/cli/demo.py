"""``defray demo``: the story, printed while it happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from defray.cli import answers, books, numbers, screen
from defray.cli.numbers import rho
from defray.cli.screen import say, show
from defray.core.answer import Answer
from defray.errors import BadInput
from defray.example import open_demo
from defray.example.story import STORY, Told, tell

HEAD = (
    "The RAND Health Insurance Experiment: 5,912 people, 20,190 yearly rows, behind a contract of "
    "{rho} rho.\nA person with all of their years is protected.  Every answer below is paid from that "
    "budget, and what was\nanswered before is credited.\n"
)


def run(keep: Path | None) -> None:
    """Tell the story; in ``keep`` its contract, data and ledger stay."""
    if keep is not None:
        _empty(keep)
    with open_demo(keep) as session:
        contract = session.contract
        told: list[Told] = []
        if not screen.json_wanted():
            say(HEAD.format(rho=rho(float(contract.rho))))
        for scene in tell(session):
            told.append(scene)
            if not screen.json_wanted():
                _show(len(told), scene)
        balance, audit = session.balance(), session.audit().to_dict()
    if screen.json_wanted():
        show({"scenes": [_document(t) for t in told], "balance": balance, "audit": audit})
        return
    say("The balance", "bold cyan")
    books.show_balance(balance)
    say()
    say("The audit", "bold cyan")
    books.show_audit(audit)
    say()
    say(numbers.ROUNDED, "dim")
    if keep is not None:
        say(f"kept in {keep}; go on with: defray ask -c {keep / 'contract.toml'} 'SELECT ...'")
    else:
        say("to go on asking, keep it: defray demo --keep DIR")


def _empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        used = any(folder.iterdir())
    except OSError as error:
        why = error.strerror or "no folder can be made there"
        raise BadInput(f"cannot use {folder}: {why}", hint="name a new folder") from None
    if used:
        raise BadInput(f"{folder} is not empty", hint="name a new folder")


def _show(number: int, told: Told) -> None:
    scene, outcome = told.scene, told.outcome
    say(f"{number}/{len(STORY)}  {scene.title}", "bold cyan")
    accuracy = f"  within {scene.within} at 95%" if scene.within else ""
    say(f"  {scene.sql}{accuracy}")
    if isinstance(outcome, Answer):
        answers.show_answer(outcome, footer=False)
        say(_arithmetic(outcome))
        if len(outcome.items) > 1:
            say(answers.bill(outcome.items))
    else:
        say(str(outcome))
    say(f"{scene.moral}  Charged so far, in all: {rho(told.spent_rho)} rho.", "dim")
    say()


def _arithmetic(answer: Answer) -> str:
    """What was needed, what of it was there, and what was paid."""
    needed = answer.charged_rho + answer.reused_rho
    if not answer.charged_rho:
        return "everything was there already: free"
    if not answer.reused_rho:
        return f"nothing was there yet: charged {rho(needed)} rho"
    minus = "-" if screen.plain() else "−"
    return (
        f"{rho(needed)} rho needed {minus} {rho(answer.reused_rho)} credited "
        f"= {rho(answer.charged_rho)} charged"
    )


def _document(told: Told) -> dict[str, Any]:
    outcome = told.outcome
    key = "answer" if isinstance(outcome, Answer) else "error"
    return {
        "title": told.scene.title,
        "sql": told.scene.sql,
        "within": told.scene.within,
        key: outcome.to_dict(),
        "spent_rho": told.spent_rho,
    }
