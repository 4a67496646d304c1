"""``defray analyst`` as a curator types it."""

from __future__ import annotations

import re
from typing import Any

import pytest


@pytest.mark.long
def test_from_a_newcomer_to_a_revoked_token(defray: Any) -> None:
    assert "nobody yet" in defray("analyst", "list").out
    wrong = defray("analyst", "add", "Ana", "--share", "0.25")
    assert (wrong.code, "cannot be a name" in wrong.err) == (2, True)
    assert not (defray.folder / "contract.ledger").exists()  # nothing was done

    added = defray("analyst", "add", "ana", "--share", "0.25")
    assert added.code == 0
    (text,) = re.findall(r"^  (dfy_[\w-]{43})$", added.out, re.MULTILINE)
    assert "shown this once" in added.out
    assert "0.75 is unassigned" in added.out
    ben = defray(
        "analyst", "add", "ben", "--share", "1/3", "--scopes", "read,quote", "--expires", "90d",
        "--json",
    ).json  # fmt: skip
    assert ben["token"]["scopes"] == ["quote", "read"]
    assert ben["token"]["text"].startswith("dfy_")

    too_much = defray("analyst", "share", "ben", "0.9", "--json")
    assert (too_much.code, too_much.json["error"]["code"]) == (2, "bad-input")
    assert "0.25 is unassigned" in defray("analyst", "share", "ben", "0.5").out
    rotated = defray("analyst", "rotate", "ben", "--json").json["token"]
    assert rotated["scopes"] == ["quote", "read"]
    assert rotated["expires"] is not None
    assert defray("analyst", "suspend", "ana").code == 0
    revoked = defray("analyst", "revoke", rotated["id"])
    assert "never works again" in revoked.out

    listed = defray("analyst", "list")
    assert re.search(r"^ ana +analyst +0\.25 +suspended", listed.out, re.MULTILINE)
    assert re.search(r"^ ben +analyst +0\.5 +active", listed.out, re.MULTILINE)
    assert "works until revoked" in listed.out
    assert text not in listed.out
    found = defray("analyst", "list", "--json").json
    assert (found["reserve"], [p["name"] for p in found["analysts"]]) == (0.25, ["ana", "ben"])
    assert [t["revoked"] is None for t in found["tokens"]].count(True) == 1
    assert defray("audit").code == 0


def test_what_is_wrong_with_a_token_is_said_before_anything_is_done(defray: Any) -> None:
    for words, said in (
        (("--expires", "soon"), "--expires must be like 90d"),
        (("--scopes", "curate"), "curate is no scope of the role analyst"),
    ):
        refused = defray("analyst", "add", "ana", *words)
        assert (refused.code, said in refused.err) == (2, True)
    missing = defray("analyst", "suspend", "ana")
    assert (missing.code, "no ledger yet" in missing.err) == (5, True)
    assert defray("analyst", "add", "cora", "--role", "curator").code == 0
    one_more = defray("analyst", "issue", "cora", "--scopes", "read", "--json").json
    assert one_more["token"]["scopes"] == ["read"]
    assert one_more["share"] is None
    assert defray("analyst", "resume", "zoe", "--json").json["error"]["code"] == "not-found"
