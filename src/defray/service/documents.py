"""What responses look like, for OpenAPI.  They are the documents of the library as they are; these models
describe them and filter nothing."""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from defray.core.principals import Role, Scope
from defray.service.problems import Problem

Label = int | float | str | bool | None


class Row(BaseModel):
    group: dict[str, Label]
    aggregate: str
    value: float | None
    low: float | None
    high: float | None
    half_width: float | None
    confidence: float
    met: bool
    charged_rho: float
    reused_rho: float
    releases: int
    asks: int
    id: str
    note: str


class Item(BaseModel):
    measure: str
    purse: str
    charged_rho: float
    cells: int


class Answer(BaseModel):
    question: str
    rows: list[Row]
    confidence: float
    simultaneous: bool
    met: bool
    shortfall_rho: float
    charged_rho: float
    reused_rho: float
    to_others_rho: float
    remaining_rho: float
    items: list[Item]
    data_version: int
    validity: str
    asks_so_far: int
    relation: str
    dry_run: bool
    notes: list[str]


class Quote(BaseModel):
    question: str
    exact: bool
    charged_rho: float
    low_rho: float
    high_rho: float
    first_rho: float
    reused_rho: float
    to_others_rho: float
    remaining_rho: float
    fits: bool
    items: list[Item]
    data_version: int
    needs_rho: float
    shortfall_rho: float
    achieves: dict[str, float | None] | None
    best: dict[str, str] | None
    validity: str
    notes: list[str]


class Quotes(BaseModel):
    quotes: list[Quote]


class ProblemDocument(BaseModel):
    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    request_id: str


class Job(BaseModel):
    id: str
    state: Literal["running", "done", "failed", "cancelled"]
    progress: float = Field(ge=0, le=1)
    answer: Answer | None = None
    problem: ProblemDocument | None = None


class Me(BaseModel):
    principal: str
    role: Role
    scopes: list[Scope]
    share: float | None
    account: dict[str, Any] | None


class Health(BaseModel):
    status: Literal["ok"]
    version: str


class Epsilon(BaseModel):
    delta: float
    epsilon: float


class Promise(BaseModel):
    columns: list[str]
    kinds: list[str]
    within: float
    confidence: float
    words: str


class Terms(BaseModel):
    table: str
    rho: float
    xi: float
    epsilon: Epsilon
    unit: str
    relation: str
    support: str
    gate: str
    sharing: str
    surplus: str
    horizon: int | None
    m_floor: float | None
    n_max: int | None
    promises: list[Promise]
    words: list[str]


class Column(BaseModel):
    name: str
    kind: str
    words: str
    domain: dict[str, Any]
    levels: list[str]
    bounds: list[float] | None
    unit_step: float | None
    null: str
    other: str


class Schema(BaseModel):
    table: str
    columns: list[Column]
    examples: list[str]


class Bought(BaseModel):
    id: str
    measure: str
    purse: str
    cells: int
    charged_rho: float


class Asked(BaseModel):
    id: str
    at: str
    question: str
    data_version: int
    charged_rho: float
    releases: list[Bought]
    rows: list[dict[str, Any]] | None = None


class History(BaseModel):
    asks: list[Asked]
    next: str | None


class Explanation(BaseModel):
    id: str
    at: str
    question: str
    data_version: int
    charged_rho: float
    from_scratch_rho: float
    paid_before: float
    releases: list[dict[str, Any]]
    rows: list[dict[str, Any]]


class Balance(BaseModel):
    rho: float
    spent_rho: float
    remaining_rho: float
    unit: str
    relation: str
    data_version: int
    closed: bool
    notes: list[str]


class TokenDocument(BaseModel):
    id: str
    principal: str
    scopes: list[Scope]
    made: dt.datetime
    expires: dt.datetime | None
    revoked: dt.datetime | None


class NewToken(TokenDocument):
    token: str = Field(description="Shown once, here.")


class Analyst(BaseModel):
    name: str
    role: Role
    share: float | None
    active: bool
    tokens: list[TokenDocument]


class Analysts(BaseModel):
    analysts: list[Analyst]
    unassigned_share: float


class Audit(BaseModel):
    ok: bool
    findings: list[Any]
    head: str
    accepted_older: list[dict[str, Any]] = Field(
        description="When an older ledger was accepted: what a newer one spent is not counted."
    )


EVERYWHERE: Final = (401, 403, 413, 415, 422, 429, 500, 503)
"""What may happen to any request."""


def described(
    model: Any,
    *statuses: int,
    status: int = 200,
    accepted: type[BaseModel] | None = None,
    text: str | None = None,
) -> dict[int | str, dict[str, Any]]:
    """The responses of a route, for OpenAPI: its document (or text of a media type), the problems of its own,
    and those of every route."""
    out: dict[int | str, dict[str, Any]] = {}
    if model is not None:
        out[status] = {"model": model}
    if accepted is not None:
        out[202] = {"model": accepted}
    if text is not None:
        out[status] = {"content": {text: {"schema": {"type": "string"}}}}
    schema = ProblemDocument.model_json_schema()
    for problem in (*statuses, *EVERYWHERE):
        out[problem] = {
            "description": HTTPStatus(problem).phrase,
            "content": {Problem.media_type: {"schema": schema}},
        }
    return out
