"""The names of endpoints, and the tables that the documentation makes of their records."""

from __future__ import annotations

from typing import get_args

from extproc.apis import PROVIDER_APIS
from extproc.profiles import PROVIDERS, find_provider
from extproc.profiles.apis import API_FACTS, ApiName
from tests.profile_tables import profile_tables


def test_every_endpoint_has_a_row_and_every_row_has_all_columns():
    endpoints, aggregators = profile_tables().split("\n\n")
    for table in (endpoints, aggregators):
        lines = table.strip().split("\n")
        assert {line.replace("\\|", "").count("|") for line in lines} == {lines[0].count("|")}
    assert all(f"| `{provider.name}`" in endpoints for provider in PROVIDERS)
    assert "| `xai` | unknown hosts |" in aggregators


def test_every_name_and_alias_means_one_endpoint():
    names = [name for provider in PROVIDERS for name in (provider.name, *provider.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
    assert all(find_provider(name.upper(), None) is not None for name in names)


def test_the_facts_of_provider_apis_name_those_of_the_registry() -> None:
    """Responses has no name of its own in the configuration: `api: openai` stands for both of OpenAI's APIs."""
    assert set(API_FACTS) == set(PROVIDER_APIS) == {*get_args(ApiName), "responses"}
