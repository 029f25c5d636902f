"""The tables of the documentation come from the records."""

from __future__ import annotations

from extproc.profiles import PROVIDERS, find_provider
from extproc.profiles.table import tables


def test_every_endpoint_has_its_row_and_every_row_as_many_cells_as_its_head():
    endpoints, aggregators = tables().split("\n\n")
    for table in (endpoints, aggregators):
        lines = table.strip().split("\n")
        assert {line.replace("\\|", "").count("|") for line in lines} == {lines[0].count("|")}
    assert all(f"| `{provider.name}`" in endpoints for provider in PROVIDERS)
    assert "| `xai` | unknown hosts |" in aggregators


def test_names_and_aliases_mean_one_endpoint_each():
    names = [name for provider in PROVIDERS for name in (provider.name, *provider.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
    assert all(find_provider(name.upper(), None) is not None for name in names)
