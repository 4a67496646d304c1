"""Whatever goes wrong is application/problem+json, with its status, its code and no text of a backend."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from defray import errors
from defray.data.source import Control, Exact, Scan
from defray.errors import DefrayError, Problem, QueryError
from defray.service.problems import STATUS, document, response, status_of
from tests.service.conftest import COUNT, House
from tests.tables import open_session, write_contract, write_people

pytestmark = pytest.mark.xdist_group("service")  # they share a house
JSON = {"content-type": "application/json"}
STATUSES = {
    "BadInput": 422, "ContractError": 503, "WorkloadError": 422, "QueryError": 422, "NotFound": 404,
    "TargetError": 422, "Refused": 409, "BudgetRefused": 409, "MaxRhoRefused": 409, "TooFewRows": 409,
    "TooManyLooks": 409, "DataError": 503, "SourceUnavailable": 503, "SourceChanged": 503,
    "Cancelled": 409, "ContractClosed": 409, "LedgerError": 503, "LedgerBusy": 503, "LedgerMismatch": 503,
    "LedgerUnavailable": 503,
    "LedgerCorrupt": 503, "MissingExtra": 503, "Unauthorized": 401, "Forbidden": 403,
    "Throttled": 429, "InternalError": 500, "DefrayError": 500, "Unreachable": 503,
}  # fmt: skip


def family(kind: type[DefrayError]) -> list[type[DefrayError]]:
    return [kind, *(each for sub in kind.__subclasses__() for each in family(sub))]


def made(kind: type[DefrayError]) -> DefrayError:
    if kind is QueryError:
        return QueryError("no", kind="syntax", text="SELEC", start=0, end=5)
    if kind in (errors.ContractError, errors.WorkloadError):
        return kind([Problem("rho", "the budget is missing", "choose it")], path="/secret/place")
    return kind("a message", hint="a cure", path="/secret/place")


KINDS = [kind for kind in family(DefrayError) if kind.__module__ == "defray.errors"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_its_status_and_its_form(kind: type[DefrayError]):
    error = made(kind)
    assert status_of(error) == STATUSES[kind.__name__]
    told = document(error, "r1")
    assert (told["type"], told["code"]) == (f"urn:defray:error:{kind.code}", kind.code)
    assert (told["status"], told["request_id"]) == (STATUSES[kind.__name__], "r1")
    assert told["detail"]
    assert told["title"]
    headers = response(error, "r1").headers
    waiting = (errors.Throttled, errors.LedgerBusy, errors.Unreachable)
    assert ("www-authenticate" in headers) == (kind is errors.Unauthorized)
    assert ("retry-after" in headers) == issubclass(kind, waiting)


def test_the_first_class_that_fits_is_never_hidden_by_a_wider_one():
    for i, (kind, _) in enumerate(STATUS):
        assert not any(issubclass(kind, wider) for wider, _ in STATUS[:i])


@pytest.mark.parametrize(
    "kind",
    [errors.LedgerCorrupt, errors.LedgerError, errors.SourceUnavailable, errors.ContractError],
)
def test_what_is_the_operators_matter_is_told_to_curators_only(kind: type[DefrayError]):
    assert "/secret" not in str(document(made(kind), "r1"))
    assert "/secret" in str(document(made(kind), "r1", whole=True))


def problem(got: Any, status: int, code: str) -> dict[str, Any]:
    assert got.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = got.json()
    assert (got.status_code, told["status"], told["code"]) == (status, status, code)
    assert told["request_id"] == got.headers["x-request-id"]
    return told


def test_sql_is_refused_with_its_place_and_the_nearest_form(calm: House):
    told = problem(
        calm.ask("ana", "SELECT COUNT(*) FROM people WHERE agee > 3"), 422, "query-refused"
    )
    assert "^" in told["caret"]
    assert told["start"] < told["end"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "body.sql"),
        ({"sql": 5}, "body.sql"),
        ({"sql": ""}, "body.sql"),
        ({"sql": COUNT, "within": True}, "body.within"),
        ({"sql": COUNT, "within": {"n": [1]}}, "body.within"),
        ({"sql": COUNT, "within": "\u0665\u0660"}, "body.within"),
        ({"sql": COUNT, "snap": "inward"}, "body.snap"),
        ({"sql": COUNT, "timeout": 0}, "body.timeout"),
        ({"sql": COUNT, "timeout": "5"}, "body.timeout"),
        ({"sql": COUNT, "dry_run": 1}, "body.dry_run"),
        ({"sql": COUNT, "among": COUNT}, "body.among"),
        ({"sql": COUNT, "wihtin": 50}, "body.wihtin"),
        ([], "body"),
    ],
)
def test_a_body_of_another_form_is_refused_by_its_field(calm: House, body: Any, where: str):
    told = problem(calm.send("ana", "POST", "/ask", body), 422, "bad-input")
    assert told["problems"][0]["where"] == where
    assert told["detail"].startswith(where)


@pytest.mark.parametrize(
    "text",
    [b"{", b"", b"null", b"\xff\xfe", b'{"sql": "\\ud800", "within": 5}', b"[" * 50_000,
     b'{"sql": "x", "within": NaN}', b'{"sql": "x", "within": 1e999}',
     b'{"sql": "x", "within": ' + b"9" * 5000 + b"}", b'{"sql": "x", "timeout": Infinity}',
     b'{"sql": "SELECT COUNT(*) FROM people", "within": {"\\ud800": 5}}'],
)  # fmt: skip
def test_a_body_that_is_no_text_of_json_is_refused(calm: House, text: bytes):
    headers = calm.headers("ana", **JSON)
    got = calm.client.post("/v1/ask", content=text, headers=headers)
    assert got.headers["content-type"] == "application/problem+json"
    assert got.status_code == 422


def test_refusals_say_what_fits(calm: House):
    told = problem(calm.ask("ana", within=0.001), 409, "budget-exceeded")
    assert told["best"]["count"]
    assert told["remaining"] == 0.5
    body = {"sql": COUNT, "within": 50, "max_rho": 1e-9}
    problem(calm.send("ana", "POST", "/ask", body), 409, "max-rho-exceeded")
    assert calm.get("ana", "/balance").json()["spent_rho"] == 0


def test_unknown_routes_methods_and_media_types(calm: House):
    problem(calm.get("ana", "/nothing"), 404, "not-found")
    problem(calm.client.get("/nothing"), 404, "not-found")
    problem(calm.get("ana", "/ask/"), 404, "not-found")
    told = calm.get("ana", "/ask")
    problem(told, 405, "method-not-allowed")
    assert told.headers["allow"] == "POST"
    headers = calm.headers("ana")
    got = calm.client.post("/v1/ask", data={"sql": COUNT}, headers=headers)
    assert "application/json" in problem(got, 415, "unsupported-media-type")["hint"]


def test_queries_and_paths_of_another_form(calm: House):
    for path in ("/history?limit=0", "/history?limit=x", "/jobs/nothing", "/balance?within=x"):
        assert problem(calm.get("ana", path), 422, calm.get("ana", path).json()["code"])
    problem(calm.get("ana", "/history?cursor=%00%ff"), 422, "bad-input")
    problem(calm.get("ana", "/balance?by=nothing"), 404, "not-found")
    told = problem(calm.get("ana", "/balance?bye=sex"), 422, "bad-input")
    assert "'bye'" in told["detail"]
    assert told["hint"] == "there are by, confidence, within"
    problem(calm.get("ana", "/me?x"), 422, "bad-input")
    problem(calm.get("ana", "/answers/%2e%2e"), 404, "not-found")


class Broken:
    """A source that fails as a database does, quoting a row."""

    def __init__(self, fault: Exception) -> None:
        self.fault = fault

    def fingerprint(self) -> str:
        return "one"

    def scan(self, scan: Scan, control: Control | None = None) -> Exact:
        raise self.fault

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (RuntimeError("Could not convert string 'Mary Jones, 47' to INT32"), 500),
        (errors.SourceUnavailable("no data file at Mary Jones"), 503),
        (MemoryError("Mary Jones"), 500),
    ],
)
def test_text_of_a_backend_reaches_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Exception, status: int
):
    write_people(tmp_path, 10)
    with open_session(write_contract(tmp_path), Broken(fault)) as session:
        house = House(session)
        with house.client, caplog.at_level(logging.DEBUG):
            got = house.ask("ana")
            later = house.ask("ana", Prefer="respond-async")
            job = house.followed("ana", later.headers["location"])
    assert got.status_code == job["problem"]["status"] == status
    assert job["state"] == "failed"
    assert "Mary" not in got.text + str(job)
    if status == 500:
        assert got.json()["incident"] in caplog.text
        assert "Mary" not in caplog.text


def test_a_fault_of_the_service_itself_is_an_incident(
    house: House, caplog: pytest.LogCaptureFixture
):
    def broken() -> None:
        raise ValueError("Mary Jones, 47")

    house.app.add_api_route("/v1/broken", broken)
    with caplog.at_level(logging.DEBUG):
        told = problem(house.client.get("/v1/broken"), 500, "internal-error")
    assert told["incident"] in caplog.text
    assert "Mary" not in caplog.text + str(told)


def test_numbers_of_hundreds_of_digits_are_refused_by_their_field(calm: House):
    for name in ("within", "max_rho", "confidence"):
        body = {"sql": COUNT, "within": 50, name: 10**400}
        told = problem(calm.send("ana", "POST", "/ask", body), 422, "bad-input")
        assert name in str(told)


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b'{"sql": 5}'])
@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
def test_a_stranger_is_told_nothing_about_a_body(house: House, body: bytes, kind: str):
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        got = house.client.post(
            "/v1/ask?wrong=1", content=body, headers={**headers, "Content-Type": kind}
        )
        assert (got.status_code, got.json()["code"]) == (401, "unauthorized")


def test_analysts_are_told_that_the_contract_was_closed(house: House):
    assert house.ask("ana").status_code == 200
    house.session.end()
    for path in ("/ask", "/quote"):
        got = house.send("ana", "POST", path, {"sql": COUNT, "within": 20})
        told = problem(got, 409, "contract-closed")
        assert "only what is known" in told["detail"]
    assert house.ask("ana").json()["charged_rho"] == 0
