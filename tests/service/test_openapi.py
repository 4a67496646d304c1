"""Requests at random from the OpenAPI document: no fault, no undescribed response, no open door."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    positive_data_acceptance,
    unsupported_method,
)

from tests.service.conftest import EASY, House
from tests.service.routes import ROUTES, Route
from tests.tables import people

NOT_HERE = [
    positive_data_acceptance,  # SQL is a language: most texts are no question
    unsupported_method,
]


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Any]]:
    """A house, and the description that it gives of itself."""
    with people(tmp_path_factory.mktemp("house"), rows=100) as session:
        house = House(session, EASY)
        with house.client:
            yield house, schemathesis.openapi.from_asgi("/v1/openapi.json", house.app)


def try_at_random(house: House, schema: Any, route: Route, examples: int) -> None:
    operation = schema[route.template][route.method]
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def trial(case: schemathesis.Case) -> None:
        case.call_and_validate(headers=house.headers("cat"), excluded_checks=NOT_HERE)

    trial()


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.template}")
def test_a_few_of_each_route(tried: tuple[House, Any], route: Route):
    try_at_random(*tried, route, 5)


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.template}")
def test_many_of_each_route(tried: tuple[House, Any], route: Route):
    try_at_random(*tried, route, 300)
