"""Asks in SQL, put to the real engine: noise is drawn, and charges are quanta of a ledger in memory.

Nothing that is durable is touched: what a run spends is forgotten with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from defray.controller.ask import Ask
from defray.controller.goals import Wish
from defray.core.amounts import exact, rho_of, support_of
from defray.core.answer import Answer
from defray.core.contract import Contract, Purse, Weighing
from defray.data.source import Source
from defray.engine import Engine
from defray.errors import Refused
from defray.ledger.memory import MemoryLedger
from defray.ledger.store import View
from defray.noise.opendp_sampler import OpenDPSampler
from defray.noise.sampler import Sampler
from defray.policy.choices import GATES
from defray.simulate.pricing import Prices
from defray.simulate.run import Budget, Run
from defray.simulate.schemes import Scheme
from defray.simulate.truths import Truth, truth_of
from defray.simulate.workload import Workload, Written
from defray.transcript import terms_of


@dataclass(frozen=True, slots=True)
class Gating:
    """What a contract says of scarcity, beside its budget."""

    gate: str = "refuse"
    weights: Weighing = field(default_factory=Weighing)

    def applied(self, contract: Contract) -> Contract:
        # Exact support, as the accounting and the comparators credit.
        return replace(contract, gate=self.gate, weights=self.weights, support="exact")


def run_on_table(
    asks: Sequence[Written],
    workload: Workload,
    contract: Contract,
    source: Source,
    gating: Gating,
    sampler: Sampler | None = None,
) -> Run:
    """The asks in their order, under the contract with this gating; ``workload`` says what each demands.

    A target is met where the answer says so.  Of an ask for one functional, the support is what the ledger
    holds of it; of any other, its demand but for what the answer, or the refusal, says is lacking.  Errors
    are measured against the true values of the source, which is left open.

    Noise is drawn from the operating system, so that only what does not rest on noisy answers is the same
    every time.
    """
    contract = gating.applied(contract)
    spent: dict[Purse, int] = {"answer": 0, "diagnostic": 0}
    charged: dict[Purse, list[float]] = {purse: [] for purse in spent}
    supports, weights, met, errors, arrived = [], [], [], [], 0
    truths: dict[Written, Truth] = {}
    with closing(MemoryLedger(terms_of(contract))) as ledger:
        engine = Engine(contract, ledger, source, sampler or OpenDPSampler())
        for written, demand in zip(asks, workload.demands.tolist(), strict=True):
            wish = wish_of(written)
            ask = engine.prepare(written.sql, wish)
            answer, refusal = _asked(engine, written.sql, wish)
            if written not in truths:
                truths[written] = truth_of(ask, source)
            met.append(answer is not None and answer.met)
            errors.append(truths[written].error(answer))
            with ledger.view() as view:
                for purse, before in spent.items():
                    spent[purse] = view.spent(purse)
                    charged[purse].append(float(rho_of(spent[purse] - before, contract.rho)))
                supports.append(_support(ask, demand, view, answer, refusal))
                weights.append(1.0)
                for arrival in view.arrivals(arrived, 1):
                    arrived, weights[-1] = arrival.number, arrival.weight
    return Run(
        gating.gate,
        workload.demands,
        np.array(charged["answer"]),
        np.array(charged["diagnostic"]),
        np.array(supports),
        np.array(weights),
        float(rho_of(sum(spent.values()), contract.rho)),
        np.array(met, dtype=np.bool_),
        np.array(errors),
    )


def _asked(engine: Engine, sql: str, wish: Wish) -> tuple[Answer | None, Refused | None]:
    try:
        return engine.ask(sql, wish), None
    except Refused as refusal:  # what it was charged all the same is in the books
        return None, refusal


def _support(
    ask: Ask, demand: float, view: View, answer: Answer | None, refusal: Refused | None
) -> float:
    blocks = ask.compiled.blocks
    known = [view.known(block.keys) for block in blocks]
    if len(blocks) == len(known[0]) == 1 and not blocks[0].empty[0]:
        return float(support_of(known[0][0].precision, blocks[0].reach))
    if answer is not None:
        return max(0.0, demand - answer.shortfall_rho)
    lacking = refusal.context.get("asked", math.inf) if refusal is not None else math.inf
    return max(0.0, demand - lacking) if any(k.precision for row in known for k in row) else 0.0


@lru_cache(maxsize=4096)
def wish_of(written: Written) -> Wish:
    """The accuracy of an ask, as the engine takes it."""
    given = (written.within or None, written.confidence or None, written.rho or None)
    return Wish.of(*given, None, None)


# -- for a comparison --------------------------------------------------------------------------------


def choices(xi: float) -> list[str]:
    """What a contract can choose, by scheme: gates that weigh do so where there is a diagnostic purse."""
    return [f"qif_{name}" if xi and make(1).weighted else name for name, make in GATES.items()]


class OnTable:
    """The runner of :func:`defray.simulate.results.simulate` that asks a table: ``source_of`` opens that of
    a seed, and ``asks`` are those of the workload.  All policies are the same contract but for its gate."""

    def __init__(
        self, workload: Workload, contract: Contract, source_of: Callable[[int], Source]
    ) -> None:
        self._workload = workload
        self._contract = contract
        self._source_of = source_of
        self._prices = Prices(contract)
        self._last: tuple[Source, Workload] | None = None

    def workload(self, seed: int, progress: Callable[[int, int], None] | None = None) -> Workload:
        """The workload with the true magnitudes of the seed's table."""
        source = self._source_of(seed)
        if self._last is None or self._last[0] is not source:
            found: dict[Written, float] = {}
            asks = self._workload.asks
            for i, written in enumerate(asks):
                if written not in found:
                    ask = self._prices.ask(written.sql, wish_of(written))
                    found[written] = truth_of(ask, source).magnitude
                if progress is not None:
                    progress(i + 1, len(asks))
            truths = np.array([found[written] for written in asks])
            self._last = source, replace(self._workload, truths=truths)
        return self._last[1]

    def __call__(self, workload: Workload, scheme: Scheme, budget: Budget, seed: int = 0) -> Run:
        contract = under(self._contract, budget)
        gating = Gating(scheme.name.removeprefix("qif_"), contract.weights)
        source = self._source_of(seed)
        found = run_on_table(workload.asks, workload, contract, source, gating)
        return replace(found, scheme=scheme.name)


def under(contract: Contract, budget: Budget) -> Contract:
    """The contract with another budget; what is the same stays exact."""
    rho, xi = contract.rho, contract.xi
    return replace(
        contract,
        rho=rho if float(rho) == budget.rho else exact(budget.rho),
        xi=xi if float(xi) == budget.xi else exact(budget.xi),
        horizon=budget.horizon,
    )


def shared(workload: Workload, contract: Contract) -> bool:
    """Whether two different questions of a workload rest on the same functional, which is bought once."""
    prices, owners = Prices(contract), dict[bytes, int]()
    for key, written in zip(workload.keys.tolist(), workload.asks, strict=True):
        ask = prices.ask(written.sql, wish_of(written))
        if any(owners.setdefault(k, key) != key for k in _functionals(ask)):
            return True
    return False


def _functionals(ask: Ask) -> Iterator[bytes]:
    for block in ask.compiled.blocks:
        yield from (k for k, empty in zip(block.keys, block.empty, strict=True) if not empty)
