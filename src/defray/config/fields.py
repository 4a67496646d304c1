"""Taking values out of a parsed contract file one field at a time, noting every mistake on the way.

A method of :class:`Section` returns None where the key is absent *or* wrong; whatever is wrong has then
been noted, so that reading goes on and all mistakes come out together.
"""

from __future__ import annotations

import datetime as dt
import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from defray.config import keys
from defray.config.toml_lines import Where
from defray.core.amounts import exact
from defray.errors import Problem

LARGEST: Final = Fraction(10) ** 300
"""No number of a contract is larger than this, nor (except 0) smaller than its inverse."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def toml_string(text: str) -> str:
    """The text as a TOML string on one line (valid inside comments too).

    >>> print(toml_string('a "b"' + chr(10) + chr(127)))
    "a \\"b\\"\\n\\u007f"
    """
    return re.sub(
        r"[\x7f-\x9f\u2028\u2029\ud800-\udfff]",
        lambda m: f"\\u{ord(m[0]):04x}",
        json.dumps(text, ensure_ascii=False),
    )


def toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_string(name)


def shown(value: Any, depth: int = 0) -> str:
    """A value about as it was written, shortened."""
    match value:
        case bool():
            text = "true" if value else "false"
        case Decimal():
            text = str(value).lower().replace("infinity", "inf").replace("e+", "e")
        case int():
            text = str(value) if abs(value) < 10**60 else "a number of over 60 digits"
        case str():
            text = toml_string(value)
        case list():
            inner = [shown(v, depth + 1) for v in value[:8]] if depth < 2 else ["..."]
            text = f"[{', '.join(inner)}{', ...' if len(value) > 8 else ''}]"
        case dict():
            text = "a table"
        case dt.date() | dt.time():
            text = value.isoformat()
        case _:
            text = str(value)
    return text if len(text) <= 80 else f"{text[:76]} ..."


def dotted(where: Where) -> str:
    """``columns."my col".bounds``; positions in lists are left out."""
    return ".".join(toml_key(part) for part in where if isinstance(part, str))


class Findings:
    """The mistakes found so far."""

    def __init__(self, lines: Mapping[Where, int]) -> None:
        self._lines = lines
        self._found: list[Problem] = []

    def add(self, where: Where, message: str, cure: str) -> None:
        """What is missing is reported at its table, or at line 1."""
        inner = where
        while inner and inner not in self._lines:
            inner = inner[:-1]
        self._found.append(Problem(dotted(where), message, cure, self._lines.get(inner, 1)))

    def problems(self) -> list[Problem]:
        """In file order."""
        return sorted(self._found, key=lambda p: p.line or 0)


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the file.  ``family`` is its name in :data:`defray.config.keys.KEYS`."""

    data: Mapping[str, Any]
    where: Where
    family: str
    findings: Findings

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def problem(
        self, key: str | None, message: str, cure: str = "", *, item: int | None = None
    ) -> None:
        """Note a mistake of a key (None: of the whole table); without a cure, the key's example is
        shown."""
        if not cure and key is not None:
            path = f"{self.family}.{key}" if self.family else key
            cure = f"for example: {keys.key_at(path).example}"
        where = self.where if key is None else (*self.where, key)
        self.findings.add(where if item is None else (*where, item), message, cure)

    def check_names(self) -> None:
        """Note every key that does not exist here, or not yet."""
        known = keys.names_in(self.family)
        for key in self.data:
            if key not in known:
                cure = keys.cure_for_unknown(self.family, key)
                self.problem(key, f"there is no key {toml_key(key)} here", cure)

    def table(self, key: str, family: str) -> Section | None:
        """A sub-table, its names checked."""
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            cure = (
                f"write [{dotted((*self.where, key))}] on a line of its own and its keys below it"
            )
            self.findings.add((*self.where, key), f"{shown(value)} is not a table", cure)
            return None
        inner = Section(value, (*self.where, key), family, self.findings)
        if family != "columns":
            inner.check_names()
        return inner

    def tables(self, key: str, family: str) -> list[Section]:
        """The tables of a list of tables, their names checked."""
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            where = dotted((*self.where, key))
            cure = f"write [[{where}]] on a line of its own and its keys below it, for each of them"
            self.findings.add((*self.where, key), f"{shown(value)} is not a list of tables", cure)
            return []
        found = [
            Section(v, (*self.where, key, i), family, self.findings) for i, v in enumerate(value)
        ]
        for section in found:
            section.check_names()
        return found

    def number(self, key: str, *, positive: bool = False) -> Fraction | None:
        """A finite number, written as a number or as a string such as ``"1/7"``."""
        if key not in self:
            return None
        number = self.as_number(key, self.data[key])
        if positive and number is not None and number <= 0:
            self.problem(key, f"{shown(self.data[key])} is not above 0")
            return None
        return number

    def as_number(
        self, key: str, value: Any, context: str = "", item: int | None = None
    ) -> Fraction | None:
        """``context`` precedes the message, where several numbers belong together."""
        try:
            number = exact(value)
        except ValueError:
            if isinstance(value, Decimal) and value.is_finite():
                number = 2 * LARGEST
            else:
                finite = "finite " if isinstance(value, Decimal) else ""
                message = f"{context}{shown(value)} is not a {finite}number"
                self.problem(key, message, item=item)
                return None
        if number and not 1 / LARGEST <= abs(number) <= LARGEST:
            self.problem(
                key,
                f"{context}{shown(value)} is out of range",
                "numbers lie between 1e-300 and 1e300",
                item=item,
            )
            return None
        return number

    def whole(self, key: str, *, low: int, high: int) -> int | None:
        """A whole number from ``low`` to ``high``."""
        number = self.number(key)
        if number is None:
            return None
        if number.denominator != 1 or not low <= number <= high:
            limit = f"from {low} to {high}"
            self.problem(key, f"{shown(self.data[key])} is not a whole number {limit}")
            return None
        return int(number)

    def text(self, key: str) -> str | None:
        """A non-empty string without control characters."""
        if key not in self:
            return None
        value = self.data[key]
        if not isinstance(value, str):
            self.problem(key, f"{shown(value)} is not a string")
        elif not is_name(value):
            self.problem(key, f"{shown(value)} is empty or has control characters")
        else:
            return value
        return None

    def names(self, key: str) -> tuple[str, ...] | None:
        """A list of distinct names (one name may stand without brackets)."""
        if key not in self:
            return None
        value = self.data[key]
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not items:
            self.problem(key, f"{shown(value)} is not a list of names")
            return None
        for i, item in enumerate(items):
            if not isinstance(item, str) or not is_name(item):
                self.problem(key, f"{shown(item)} is not a name", item=i)
                return None
            if item in items[:i]:
                self.problem(key, f"{shown(item)} is listed twice", "list each name once", item=i)
                return None
        return tuple(items)

    def choice(
        self,
        key: str,
        options: Sequence[str],
        *,
        synonyms: Mapping[str, str] | None = None,
    ) -> str | None:
        """One of the options."""
        if key not in self:
            return None
        value = self.data[key]
        if isinstance(value, str):
            if value in options:
                return value
            near = (synonyms or {}).get(value.casefold()) or next(
                iter(difflib.get_close_matches(value.casefold(), options, 1, 0.5)), None
            )
            if near:
                self.problem(key, f"there is no {key} {shown(value)}", f'did you mean "{near}"?')
                return None
        self.problem(
            key, f"{shown(value)} is no {key} that Defray knows", f"one of: {', '.join(options)}"
        )
        return None


def is_name(text: str) -> bool:
    return bool(text) and not _CONTROL.search(text)
