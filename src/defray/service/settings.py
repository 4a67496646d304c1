"""What a server is told besides its contract: one TOML file, of which each table is a class of its own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from defray.core.brief import brief
from defray.errors import BadInput
from defray.service.limits import Limits
from defray.service.oidc.provider import Provider

T = TypeVar("T", Limits, Provider)

TABLES: Final = ("server", "oidc")


@dataclass(frozen=True, slots=True)
class Settings:
    """The table ``[server]``, and ``[oidc]`` where tokens of an issuer are taken."""

    limits: Limits = field(default_factory=Limits)
    oidc: Provider | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Those of a file; what it leaves out is as it is by default.  Raises BadInput where it cannot be
        used."""
        try:
            document = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise BadInput(f"cannot read {path}: {why}", hint="see docs/http.md") from None
        for name, table in document.items():
            if name not in TABLES or not isinstance(table, dict):
                there = " and ".join(f"[{known}]" for known in TABLES)
                raise BadInput(
                    f"{path} may have the tables {there}, and {brief(name, 40)} is none",
                    hint="see docs/http.md",
                )
        return cls(
            made(Limits, "limit of the server", document.get("server", {})),
            made(Provider, "setting of [oidc]", document["oidc"]) if "oidc" in document else None,
        )


def made(kind: type[T], what: str, table: Mapping[str, Any]) -> T:
    """The value that a table describes.  Raises BadInput for a key that is none, or one that is missing."""
    known = [each.name for each in fields(kind)]
    for name in table:
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise BadInput(f"{brief(name, 40)} is no {what}", hint=meant)
    for each in fields(kind):
        needed = each.default is MISSING and each.default_factory is MISSING
        if needed and each.name not in table:
            raise BadInput(f"there is no {each.name}, a {what}", hint=f'{each.name} = "..."')
    return kind(**table)
