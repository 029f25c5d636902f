"""Which exchanges have a line in the processor's log. Envoy tells of the others (tests/envoy/test_access_log.py)."""

from __future__ import annotations

import pytest

from extproc.ext_proc.select import SelectExchange
from tests.unit.ext_proc.playbook import Playbook, config, request_body, request_headers
from tests.unit.ext_proc.test_translate import ASK, hop, routed


def edge(**changes: object) -> Playbook:
    return Playbook(SelectExchange(config(**changes), request_id="id-1", now=1000.0))


@pytest.mark.parametrize(("access_log", "is_logged"), [("own", False), ("all", False), ("off", True)])
def test_what_was_never_answered_is_envoys_to_tell_where_it_tells(access_log: str, is_logged: bool) -> None:
    play = edge(access_log=access_log)
    play >> request_headers() >> request_body(b"{", end=False)
    assert play.exchange.close(play.now).outcome == "client_closed"
    assert play.exchange.is_logged is is_logged
    play = hop(access_log=access_log)
    play >> routed(play)
    play.exchange.close(play.now)
    assert play.exchange.is_logged is is_logged


def test_an_attempt_that_was_made_has_a_line_and_a_refusal_too() -> None:
    play = hop()
    play >> routed(play) >> request_body(ASK)
    play.exchange.close(play.now)
    assert play.exchange.is_logged
    play = edge()
    play >> request_headers(path="/v1/nowhere")
    play.exchange.close(play.now)
    assert play.exchange.is_logged


def test_a_request_that_went_on_has_none_at_the_edge() -> None:
    play = edge(access_log="off")
    play >> request_headers() >> request_body(ASK)
    play.exchange.close(play.now)
    assert not play.exchange.is_logged


def test_behind_another_gateway_the_processor_tells_all() -> None:
    play = hop(one_hop=True)
    play >> request_headers()
    play.exchange.close(play.now)
    assert play.exchange.is_logged
