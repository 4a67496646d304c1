"""The views that questions are answered from, chosen from what the releases of a measure tell apart.

A question's view has its own columns, and with them those of releases that share a column (of a small domain:
all) while the cells stay few.  Those that came first stay first, so that what a view has held it keeps.

Where columns of many atoms are cut ever more finely, a view becomes too large in the end.  Releases are
therefore packed into *generations*: each goes to the oldest generation whose views all stay few with its
cuts, else it begins a new one.  A question may be answered from any generation that tells it apart, and
what it was answered from once is still there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from defray.support.axes import Axes, axes_for
from defray.support.cuts import Cuts, joined

FINE: Final = 512
"""A view has every atom of its columns apart as long as it has at most so many cells, and grows to hold
others' columns up to so many."""

LARGEST: Final = 1024
"""The most cells of a view."""

SMALL: Final = 128
"""Up to so many cells a view also holds releases that share no column with a question: its total may be
shared."""

RECENT: Final = 3
"""So many of the newest generations are looked at for questions that they do not tell apart yet."""

Columns = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Generation:
    """What releases tell apart, by their columns, in the order in which these came; how many releases."""

    known: Mapping[Columns, Cuts]
    releases: int = 0

    def after(self, cuts: Cuts) -> Generation:
        columns = tuple(sorted(cuts))
        more = joined(self.known.get(columns, {}), cuts)
        return Generation({**self.known, columns: more}, self.releases + 1)

    def within(self, cuts: Cuts) -> Cuts:
        """A question's cuts with those of the releases that lie in its columns."""
        here = set(cuts)
        return joined(cuts, *(more for c, more in self.known.items() if here.issuperset(c)))

    def tells(self, cuts: Cuts) -> bool:
        """Whether some releases' cuts tell a question apart."""
        return any(
            all(c in more and _finer(more[c], wanted) for c, wanted in cuts.items())
            for more in self.known.values()
        )


@dataclass(frozen=True, slots=True)
class Homes:
    """The generations of one measure, the oldest first, over columns of so many atoms."""

    widths: tuple[int, ...]
    generations: tuple[Generation, ...] = ()

    def after(self, cuts: Cuts) -> Homes:
        """With a release of these cuts."""
        if axes_for(cuts, self.widths, FINE, LARGEST) is None:
            return self  # no view can hold it
        for i, generation in enumerate(self.generations):
            grown = generation.after(cuts)
            if self._few(grown, cuts):
                changed = (*self.generations[:i], grown, *self.generations[i + 1 :])
                return Homes(self.widths, changed)
        return Homes(self.widths, (*self.generations, Generation({}).after(cuts)))

    def _few(self, generation: Generation, cuts: Cuts) -> bool:
        """Whether the views that a release of these cuts lies in stay small enough to tell questions
        apart."""
        here = set(cuts)
        return all(
            axes_for(generation.within(more), self.widths, FINE, FINE) is not None
            for columns, more in generation.known.items()
            if here.issubset(columns)
        )

    def views(self, cuts: Cuts) -> list[Axes]:
        """The views that a question with these cuts may be answered from: that of most releases first.  None
        where even its own cells are too many."""
        own = axes_for(cuts, self.widths, FINE, LARGEST)
        if own is None:
            return []
        recent = len(self.generations) - RECENT
        found: list[tuple[int, Axes]] = []
        for i, generation in enumerate(self.generations):
            if i >= recent or generation.tells(cuts):
                views = [*self._home(generation, cuts), *self._told(generation, cuts)]
                found += [(generation.releases, axes) for axes in _apart(views)]
        found.sort(key=lambda view: -view[0])
        return list(dict.fromkeys(axes for _, axes in found)) or [own]

    def _told(self, generation: Generation, cuts: Cuts) -> Iterator[Axes]:
        """The views of column sets that hold a question and tell it apart: it may have been measured
        there."""
        here = set(cuts)
        for columns, more in reversed(list(generation.known.items())):
            if here.issubset(columns) and all(_finer(more[c], cuts[c]) for c in here):
                axes = axes_for(generation.within(more), self.widths, FINE, LARGEST)
                if axes is not None:
                    yield axes

    def _home(self, generation: Generation, cuts: Cuts) -> Iterator[Axes]:
        """A question's view in one generation; none where it would be too large."""
        known, here, within = generation.known, set(cuts), generation.within(cuts)
        axes = axes_for(within, self.widths, FINE, LARGEST)
        while axes is not None:
            for columns in [c for c in known if not here.issuperset(c)]:
                wide = here.union(columns)
                wider = joined(within, *(more for c, more in known.items() if wide.issuperset(c)))
                near = not here or not here.isdisjoint(columns)
                most = LARGEST if here.issubset(columns) else FINE if near else SMALL
                larger = axes_for(wider, self.widths, FINE, most)
                if larger is not None:
                    axes, within, here = larger, wider, wide
                    break
            else:
                yield axes
                return


def _finer(cuts: frozenset[int] | None, wanted: frozenset[int] | None) -> bool:
    return cuts is None or (wanted is not None and wanted <= cuts)


def _apart(views: Iterable[Axes]) -> list[Axes]:
    """Those that hold something that none before them holds."""
    found: list[Axes] = []
    for axes in views:
        if not any(other.respects(axes.cuts) for other in found):
            found.append(axes)
    return found
