"""The trace of a request: what counts as one (W3C Trace Context), and who is told of it."""

from __future__ import annotations

import pytest

from extproc.config import Backend
from extproc.ext_proc.trace_context import trace_headers, trace_id
from tests.unit.ext_proc.playbook import request_body, request_headers
from tests.unit.ext_proc.test_select import edge
from tests.unit.ext_proc.test_translate import ASK, hop, routed

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.mark.parametrize("text", [TRACEPARENT, f"00-{TRACE}-b7ad6b7169203331-00", f"cc-{TRACE}-b7ad6b7169203331-01",
                                  f"cc-{TRACE}-b7ad6b7169203331-01-what-the-future-will-be-like"])
def test_well_formed(text: str) -> None:
    assert trace_id({"traceparent": text}) == TRACE
    assert trace_headers({"traceparent": text, "baggage": "user=1"}) == {"traceparent": text}


@pytest.mark.parametrize("text", [
    "", "nonsense", TRACEPARENT.upper(), TRACEPARENT + "-more", TRACEPARENT + "\n", f"ff-{TRACE}-b7ad6b7169203331-01",
    f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE[:-1]}-b7ad6b7169203331-01",
    f"{TRACEPARENT}, {TRACEPARENT}", f"cc-{TRACE}-b7ad6b7169203331-01-" + "x" * 300])
def test_what_is_not_well_formed_is_no_trace(text: str) -> None:
    assert trace_id({"traceparent": text}) is None
    assert trace_headers({"traceparent": text, "tracestate": "a=1"}) == {}


@pytest.mark.parametrize(("state", "passes"), [
    ("vendor=1,other=2", True), ("", False), ("a" * 512, True), ("a" * 513, False), ("a=\x01", False)])
def test_the_state_goes_along_whole_or_not_at_all(state: str, passes: bool) -> None:
    assert ("tracestate" in trace_headers({"traceparent": TRACEPARENT, "tracestate": state})) is passes


@pytest.mark.parametrize(("trace", "told"), [(True, True), (False, False), (None, False)])
def test_only_a_backend_that_may_know_is_told(trace: bool | None, told: bool) -> None:
    """A public one is not, unless the configuration says so; the record has the trace in any case."""
    play = hop(backends={"alpha": Backend(api="openai", url="https://alpha.example/v1", trace=trace),
                         "beta": Backend(api="openai", url="https://beta.example/v1")})
    play >> routed(play, traceparent=TRACEPARENT, tracestate="a=1", baggage="user=1") >> request_body(ASK)
    sets = play.take()[0][1]
    assert ({"traceparent": TRACEPARENT, "tracestate": "a=1"}.items() <= sets.items()) is told
    assert {"traceparent", "tracestate", "baggage"} - set(sets) <= play.removed()
    assert "baggage" not in sets
    assert play.exchange.record.trace_id == TRACE


def test_the_edge_records_the_trace() -> None:
    play = edge()
    play >> request_headers(path="/v1/nowhere", traceparent=TRACEPARENT)
    play.take()
    assert play.exchange.record.trace_id == TRACE
