"""What a client received, judged by its plan: whole and right, an error that says so, or wrong.

Wrong is: content that differs from the story in any character, number or argument; what looks finished although the
provider broke it; an error in a foreign shape; an answer that never ends. `unexpected` is an error that is in shape but
that no fault of the plan explains: right only for requests that ran on a killed worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tests.fault.client import Got
from tests.fault.plan import Plan
from tests.fault.said import Said, Unreadable, error_of, read
from tests.fault.story import Story, story

Outcome = Literal["right", "status", "event", "reset", "left", "wrong"]
OUTCOMES: tuple[Outcome, ...] = ("right", "status", "event", "reset", "left", "wrong")
STOPS = {("anthropic", False): "end_turn", ("anthropic", True): "tool_use", ("openai", False): "stop",
         ("openai", True): "tool_calls", ("events", False): "stop", ("events", True): "tool_calls"}


@dataclass
class Verdict:
    """`why` says what is wrong, or how the error read; `backend`: who served."""

    outcome: Outcome
    why: str = ""
    backend: str = ""
    unexpected: bool = False


class Wrong(Exception):  # noqa: N818 - says what it is
    """The answer is wrong."""


def judge(plan: Plan, got: Got) -> Verdict:
    """The verdict on one answer."""
    try:
        return _judge(plan, got)
    except (Wrong, Unreadable) as wrong:
        return Verdict("wrong", str(wrong))


def _judge(plan: Plan, got: Got) -> Verdict:
    if got.hung:
        raise Wrong("an answer without an end")
    if got.status == 0:
        return Verdict("left") if got.left else Verdict("reset", "no answer", unexpected=True)
    if got.status != 200:
        return _refused(plan, got)
    said = read(plan.client, bytes(got.body), streamed=plan.streamed, whole=got.clean)
    if not got.clean:
        _check_part(plan, said)
        if got.left:
            return Verdict("left")
        if said.finished and said.text not in [one.text for one in stories(plan, plan.serving)]:
            raise Wrong("what looks finished is not whole")
        return Verdict("reset", "in the answer", unexpected=plan.must_work or not plan.may_reset)
    if said.error is not None:
        _check_part(plan, said)
        return Verdict("event", str(said.error["message"]), unexpected=plan.must_work)
    if not said.finished:
        raise Wrong("a clean end of something that is neither finished nor an error")
    return Verdict("right", backend=_check_whole(plan, said))


def _refused(plan: Plan, got: Got) -> Verdict:
    if not got.clean:
        return Verdict("left") if got.left else Verdict("reset", f"in an error {got.status}", unexpected=True)
    message = error_of(plan.client, bytes(got.body))
    if "sk-" in message or "AIza" in message:
        raise Wrong(f"a key in {message!r}")
    return Verdict("status", f"{got.status} {message}", unexpected=plan.must_work)


def _check_whole(plan: Plan, said: Said) -> str:
    """The backend whose story it is. Raises Wrong."""
    found = [(backend, told) for backend, told in zip(plan.backends, stories(plan, plan.backends), strict=True)
             if said.text.startswith(told.pieces[0])]
    if not found:
        raise Wrong(f"nobody's story: {said.text[:80]!r}")
    [(backend, told)] = found
    if backend not in plan.serving:
        raise Wrong(f"finished, though {backend} broke it")
    _same("text", said.text, told.text)
    _same("calls", said.calls, told.calls)
    _same("stop", said.stop, STOPS[plan.client, bool(told.calls)])
    _same("tokens", (said.input, said.output), (told.input, told.output))
    if len(set(said.ids)) != len(said.ids) or "" in said.ids:
        raise Wrong(f"ids of calls: {said.ids}")
    return backend


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Wrong(f"{what}: {str(found)[:200]!r} instead of {str(wanted)[:200]!r}")


def stories(plan: Plan, backends: Iterable[str]) -> list[Story]:
    """What these backends tell."""
    return [story(plan.seed, backend, calls=plan.calls, filler=plan.filler) for backend in backends]


def _check_part(plan: Plan, said: Said) -> None:
    """What came of a broken answer must be the beginning of one story."""
    possible = stories(plan, plan.backends)
    if said.text and not any(one.text.startswith(said.text) for one in possible):
        raise Wrong(f"the beginning of nobody's story: {said.text[-80:]!r}")
    if said.calls and not any(one.calls[:len(said.calls)] == said.calls for one in possible):
        raise Wrong(f"calls that nobody made: {said.calls}")
