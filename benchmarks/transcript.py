"""Answers from the transcript, long ledgers, and start-up."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from benchmarks.table import Line, ms, once
from defray.config.opening import open_contract
from defray.core.amounts import QUANTA, quanta_up
from defray.example import open_demo
from defray.ledger.records import Release
from defray.session import Session

LONG = 100_000


def median(work: Callable[[int], object], repeats: int) -> float:
    return statistics.median(once(lambda n=n: work(n)) for n in range(repeats))


def exact_demo(folder: Path) -> Session:
    """The demo's contract in that folder, where an answer credits those of the very same functional alone."""
    open_demo(folder).close()
    contract = folder / "contract.toml"
    contract.write_text(f'support = "exact"\n{contract.read_text()}')
    return open_contract(contract)


def stretch(session: Session, releases: int) -> None:
    """Append releases of made-up functionals, as many asks would, in large transactions: with exact support,
    which looks at nothing but their keys."""
    ledger = session._engine.ledger
    rho = session.contract.rho
    reach = Fraction(session.contract.unit.max_rows)
    sigma = float(reach) * 10**6
    charge = quanta_up(reach**2 / (2 * Fraction(sigma) ** 2), rho)
    assert charge * releases < QUANTA // 2
    done = 0
    while done < releases:
        with ledger.transaction() as tx:
            assert tx.epoch is not None
            for _ in range(5000):
                done += 1
                tx.append(
                    Release(
                        version=tx.epoch.counter,
                        purse="answer",
                        attributes=("year",),
                        measure="count",
                        weights={"kind": "region", "region": True, "group": []},
                        unit=Fraction(1),
                        step=24,
                        reach=reach,
                        values=(done << 24,),
                        sigmas=(sigma,),
                        precisions=(Fraction(1, 2**60),),
                        charge=charge,
                        question="SELECT COUNT(*) FROM randhie",
                        ask=str(tx.seq + 1),
                        keys=(done.to_bytes(16, "big"),),
                    )
                )


def lines() -> list[Line]:
    out: list[Line] = []

    def line(what: str, seconds: float, goal: float, compared: str = "") -> None:
        text = f"<= {ms(goal)}"
        out.append(
            Line(
                what, ms(seconds), compared, f"{seconds / goal:.2f} of goal", text, seconds <= goal
            )
        )

    sql = "SELECT COUNT(*) FROM randhie WHERE year = 1 AND age >= 30 ERROR WITHIN 200 AT CONFIDENCE 95%"
    with tempfile.TemporaryDirectory() as folder:
        with exact_demo(Path(folder)) as session:
            fresh = once(lambda: session.ask(sql))
            seen = median(lambda n: session.ask(sql), 2000)
            unseen = median(
                lambda n: session.ask(sql.replace("WHERE", "WHERE" + " " * (n + 2))), 1000
            )
            line("answer from the transcript, text seen", seen, 200e-6, f"{ms(fresh)} first ask")
            line("answer from the transcript, text unseen", unseen, 700e-6)
            stretch(session, LONG)
        contract = Path(folder) / "contract.toml"
        import defray

        opened = once(lambda: defray.open(contract).close())
        with defray.open(contract) as session:
            ask = (
                "SELECT COUNT(*) FROM randhie WHERE age >= {n} ERROR WITHIN 3000 AT CONFIDENCE 95%"
            )
            quote = median(lambda n: session.quote(ask.format(n=n % 60 + 1)), 60)
            held = median(lambda n: session.ask(sql), 500)
            whole = median(lambda n: session.ask(ask.format(n=n % 60 + 1)), 60)
        line(f"open a ledger of {LONG:,} releases", opened, 1.0)
        line(f"decision on {LONG:,} releases: quote of a fresh question", quote, 2e-3)
        line(
            f"decision on {LONG:,} releases: known answer",
            held,
            2e-3,
            f"{ms(whole)} whole fresh ask",
        )
        balance = started("-m", "defray", "balance", str(contract))
    line("defray balance (process, wall)", balance, 0.25)
    bare = cpu("pass")
    line(
        "import defray (CPU, above a bare interpreter)",
        cpu("import defray") - bare,
        0.06,
        f"{ms(bare)} bare",
    )
    return out


def environment() -> dict[str, str]:
    """With bytecode caching on, as an installed package has it."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def started(*arguments: str) -> float:
    """Median wall seconds of a fresh process."""

    def run() -> object:
        return subprocess.run(
            [sys.executable, *arguments], env=environment(), check=True, capture_output=True
        )

    run()
    return statistics.median(once(run) for _ in range(9))


def cpu(code: str) -> float:
    """Median CPU seconds of a fresh interpreter running ``code``."""
    script = f"{code}\nimport time, sys; print(time.process_time())"
    times = []
    for _ in range(10):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        times.append(float(done.stdout))
    return statistics.median(times[1:])
