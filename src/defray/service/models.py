"""What requests must look like."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from defray.arguments import WISHED
from defray.core.canonical import canonical
from defray.core.principals import Role, Scope

KEY: Final = re.compile(r"^[!-~]{1,128}$")
"""Idempotency keys."""

_NUMBER = {"anyOf": [{"type": "number"}, {"type": "string"}]}


def _number(value: Any) -> Any:
    written = type(value) is str and value.isascii()
    whole = type(value) is int and abs(value) < 10**300
    if not written and not whole and not (type(value) is float and math.isfinite(value)):
        raise ValueError('must be a number, or a text such as "2%"')
    return value


def _within(value: Any) -> Any:
    if isinstance(value, dict):
        if any("\ud800" <= character <= "\udfff" for alias in value for character in alias):
            raise ValueError("an alias must be text in Unicode")
        return {alias: _number(each) for alias, each in value.items()}
    return _number(value)


Number = Annotated[
    Any,
    AfterValidator(_number),
    WithJsonSchema({**_NUMBER, "description": 'As SQL has it: 50, 0.95, "2%".'}),
]
Within = Annotated[
    Any,
    AfterValidator(_within),
    WithJsonSchema(
        {
            "anyOf": [*_NUMBER["anyOf"], {"type": "object", "additionalProperties": _NUMBER}],
            "description": "The error: a number, a percentage, or one for each alias.",
        }
    ),
]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9._-]{0,63}$", max_length=64)]
Sql = Annotated[str, Field(min_length=1, examples=["SELECT COUNT(*) FROM people WHERE age >= 40"])]


class Body(BaseModel):
    """A request's body: no unknown field, no number written as a text."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Wished(Body):
    """How accurate an answer is to be, where the SQL has no ERROR WITHIN clause."""

    within: Within | None = None
    confidence: Number | None = None
    rho: Number | None = None
    simultaneous: bool | None = None
    snap: Literal["outward"] | None = None
    validity: str | None = None

    def wish(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in WISHED}


class QuoteBody(Wished):
    sql: Sql
    among: list[str] | None = Field(
        None, description="The questions that this is one of, where others follow alike."
    )

    def arguments(self) -> dict[str, Any]:
        """As :meth:`~defray.session.Session.quote` takes them."""
        return {**self.wish(), "among": self.among}


class QuotesBody(Wished):
    questions: list[Sql] = Field(min_length=1)
    together: bool = False


class AskBody(QuoteBody):
    max_rho: Number | None = None
    timeout: float | None = Field(None, gt=0, description="Seconds for the scan.")
    dry_run: bool = Field(False, description="Answer from made-up rows, free.")

    def canonical(self) -> bytes:
        """Equal requests have equal bytes, however they are spelt in JSON."""
        return canonical(self.model_dump(mode="json"))


class AnalystBody(Body):
    name: Name
    role: Role = "analyst"
    share: Number | None = Field(None, description="Of the budget; a curator has none.")


class ChangeBody(Body):
    share: Number | None = None
    active: bool | None = None


class TokenBody(Body):
    scopes: list[Scope] | None = Field(None, description="Default: all that the role may have.")
    days: float | None = Field(None, gt=0, le=36500, description="Until it expires.")
    rotate: bool = Field(False, description="Revoke the others of this principal.")
