"""Every client API with every provider API: each cell of `docs/matrix.md`, through the real Envoy."""

from __future__ import annotations

import pytest

from tests.e2e.matrix import page
from tests.e2e.matrix.abilities import ABILITIES, Ability, Cell
from tests.e2e.matrix.backends import Backend, other_of
from tests.e2e.matrix.clients import Client

CELLS = [pytest.param(ability, *pair, streamed, id=page.cell_id(ability, *pair, streamed=streamed))
         for ability in ABILITIES for pair in page.PAIRS for streamed in ability.streamed]


@pytest.mark.parametrize(("ability", "client", "provider", "streamed"), CELLS)
def test_matrix(clients: dict[str, Client], backends: dict[str, Backend], ability: Ability, client: str, provider: str,
                streamed: bool) -> None:
    cell = Cell(clients[client], backends[provider], other_of(provider, backends), streamed)
    ability.try_it(cell)
    assert tuple(cell.dropped) == ability.dropped.get(cell.pair, ()), "rule 4: what is named, and nothing else"


def test_the_page_is_up_to_date() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(), \
        "run: python -m tests.e2e.matrix > docs/matrix.md"
