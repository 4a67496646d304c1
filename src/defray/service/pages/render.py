"""Templates to responses: everything is escaped, and each page says what a browser may do with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from defray.errors import DefrayError
from defray.service import problems
from defray.service.pages import words
from defray.service.pages.assets import VERSION

GUARDS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""No script and no style but from here, in no frame, and no address told to others."""

_templates = Environment(
    loader=PackageLoader("defray.service.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(
    number=words.number,
    rho=words.rho,
    percent=words.percent,
    label=words.label,
    when=words.when,
    sentence=words.sentence,
    pointed=words.pointed,
)
_templates.globals.update(version=VERSION)


def page(request: Request, name: str, status: int = 200, **context: Any) -> Response:
    """A template as a response."""
    visitor = getattr(request.state, "visitor", None)
    contract = request.app.state.service.session.contract
    text = _templates.get_template(name).render(
        context,
        visitor=visitor,
        scopes=frozenset() if visitor is None else visitor.grant.scopes,
        table=contract.table,
        path=request.url.path,
    )
    return HTMLResponse(text, status, headers=dict(GUARDS))


def told(request: Request, error: DefrayError) -> dict[str, Any]:
    """An error as the API tells it to this visitor."""
    visitor = getattr(request.state, "visitor", None)
    whole = visitor is not None and "curate" in visitor.grant.scopes
    return problems.document(error, request.state.request_id, whole=whole)
