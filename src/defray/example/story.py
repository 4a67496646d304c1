"""Ten questions on the demo data that show what Defray does, in the order in which they tell it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from defray.errors import BudgetRefused, DefrayError, QueryError

if TYPE_CHECKING:
    from defray.core.answer import Answer
    from defray.session import Session


@dataclass(frozen=True, slots=True)
class Scene:
    """A question and what it shows.  ``refused`` is the error that it is asked for, if any."""

    title: str
    sql: str
    moral: str
    within: str | None = None
    refused: type[DefrayError] | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """As Session.ask takes them."""
        return {"within": self.within, "confidence": None if self.within is None else "95%"}


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a scene, and what the whole story had charged by then."""

    scene: Scene
    outcome: Answer | DefrayError
    spent_rho: float


STORY: tuple[Scene, ...] = (
    Scene(
        "A first question",
        "SELECT COUNT(*) FROM randhie WHERE plan = 'free' AND age >= 40",
        "You say how accurate; the price in rho follows.",
        within="100",
    ),
    Scene(
        "The same rows, spelt differently",
        "SELECT COUNT(1) FROM randhie WHERE NOT (age < 40 OR plan <> 'free')",
        "The same set of rows is the same question: free.",
        within="100",
    ),
    Scene(
        "The same, twice as accurate",
        "SELECT COUNT(*) FROM randhie WHERE plan = 'free' AND age > 39",
        "Only the difference is paid; the two answers are joined into one.",
        within="50",
    ),
    Scene(
        "The same, less accurate",
        "SELECT COUNT(*) FROM randhie WHERE age BETWEEN 40 AND 66 AND plan IN ('free')",
        "Free, and you keep the tighter interval that is there already.",
        within="80",
    ),
    Scene(
        "A table of groups",
        "SELECT plan, COUNT(*) FROM randhie GROUP BY plan ERROR WITHIN 100 AT CONFIDENCE 95%",
        "A row of the table lies in one group only, so all groups cost no more than one.",
    ),
    Scene(
        "One of its groups alone",
        "SELECT COUNT(*) FROM randhie WHERE plan = '95%'",
        "It was answered in the table before: free.",
        within="100",
    ),
    Scene(
        "Averages",
        "SELECT plan, AVG(mdvis) AS visits FROM randhie GROUP BY plan",
        "Visits to a physician by what people pay of the bill.  The counts above are used again.",
        within="0.6",
    ),
    Scene(
        "A percentage",
        "SELECT COUNT(*) FROM randhie WHERE health = 'excellent' ERROR WITHIN 5% AT CONFIDENCE 95%",
        "A small diagnostic finds the magnitude; then that accuracy is bought, and no more.",
    ),
    Scene(
        "Something that cannot be asked",
        "SELECT MAX(income) FROM randhie WHERE site = 3",
        "Refused by name, with the place and what works instead.  It costs nothing.",
        within="100",
        refused=QueryError,
    ),
    Scene(
        "More than the budget holds",
        "SELECT COUNT(*) FROM randhie WHERE sex = 'female'",
        "Refused before the data is read, with the best accuracy that still fits.",
        within="5",
        refused=BudgetRefused,
    ),
)


def tell(session: Session) -> Iterator[Told]:
    """Ask the questions of the story one by one; refusals that belong to it are outcomes."""
    spent = 0.0
    for scene in STORY:
        outcome: Answer | DefrayError
        try:
            outcome = session.ask(scene.sql, **scene.arguments)
            spent += outcome.charged_rho
        except DefrayError as error:
            if scene.refused is None or not isinstance(error, scene.refused):
                raise
            outcome = error
        yield Told(scene, outcome, spent)
