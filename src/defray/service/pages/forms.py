"""What a form sends, as the bodies that the API takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from defray.errors import BadInput
from defray.service import problems
from defray.service.models import Body

B = TypeVar("B", bound=Body)

FIELDS: Final = 40
"""The most fields that a form may have."""


async def _sent(request: Request) -> Mapping[str, str]:
    if request.method != "POST":
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415)
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, errors="strict", max_num_fields=FIELDS)
    except ValueError:
        raise BadInput("this form cannot be read", hint="go back and send it again") from None
    return {name: value.strip() for name, value in pairs if value.strip()}


Sent = Annotated[Mapping[str, str], Depends(_sent)]
"""The fields of a form that are filled in."""


def checked(kind: type[B], fields: Mapping[str, Any]) -> B:
    """The body of these fields.  Raises BadInput as the API does."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise problems.invalid(error.errors()) from None


def number(sent: Mapping[str, str], name: str) -> float | None:
    """A field that holds a number.  Raises BadInput where it holds something else."""
    text = sent.get(name)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise BadInput(f"{name}: must be a number", hint="90") from None


def question(sent: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """The fields of a question's form as those of a quote or an ask."""
    fields: dict[str, Any] = {
        name: sent[name]
        for name in ("sql", "within", "confidence", "validity", "max_rho")
        if name in sent
    }
    fields.setdefault("sql", "")
    if "simultaneous" in sent:
        fields["simultaneous"] = True
    if "snap" in sent:
        fields["snap"] = "outward"
    return {**fields, **more}
