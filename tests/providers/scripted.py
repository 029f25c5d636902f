"""What the scripted providers share: a script of answers, a record of requests, and what breaks the rules.

A subclass of `ScriptedProvider` says how a request is judged (`judge`) and how its API says no (`out_of_script`); the
answers themselves are functions of the API's own module. Nothing here knows an API.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tests.providers.http import Exchange, Reply, ScriptedServer


class Recorded(Protocol):
    """A recorded request, in whatever form a provider keeps it."""

    exchange: Exchange
    violation: str | None


S = TypeVar("S", bound=Recorded)


@dataclass
class JsonRecord:
    """A recorded request. `body` is the decoded JSON (None when it was none), `violation` the provider's refusal of
    it."""

    exchange: Exchange
    body: Any
    violation: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return self.exchange.headers

    @property
    def raw(self) -> bytes:
        return self.exchange.raw

    @property
    def path(self) -> str:
        return self.exchange.path

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body["messages"]
        return found

    def roles(self) -> list[str]:
        return [message["role"] for message in self.messages]


def decoded(raw: bytes) -> Any:
    """A JSON body; None when it is none."""
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None


class ScriptedProvider(ScriptedServer, Generic[S]):
    """`strict=False` records violations and answers all the same."""

    def __init__(self, *, strict: bool = True) -> None:
        super().__init__()
        self.strict = strict
        self.seen: list[S] = []
        self._script: list[Reply | Callable[[S], Reply]] = []
        self._always: Reply | Callable[[S], Reply] | None = None
        self._changed = threading.Condition()

    # ------------------------------------------------------------------------------------------- for the test
    def script(self, *answers: Reply | Callable[[S], Reply]) -> None:
        """The next requests get these answers, one each."""
        with self._changed:
            self._script = list(answers)
            self._always = None

    def always(self, answer: Reply | Callable[[S], Reply]) -> None:
        """Every request gets this answer."""
        with self._changed:
            self._always = answer

    def clear(self) -> None:
        """Forgets requests and script; requests without a script are then answered with 500."""
        with self._changed:
            self.seen = []
            self._script = []
            self._always = None
            self.strict = True

    @property
    def violations(self) -> list[str]:
        return [seen.violation for seen in self.seen if seen.violation]

    @property
    def last(self) -> S:
        return self.seen[-1]

    def wait_for(self, count: int, timeout: float = 10) -> S:
        """Blocks until `count` requests came since the last `clear` and returns that one."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.seen) >= count, timeout):
                raise AssertionError(f"the provider got {len(self.seen)} requests, not {count}, in {timeout} s")
            return self.seen[count - 1]

    # ------------------------------------------------------------------------------------------- for the subclass
    def judge(self, exchange: Exchange) -> tuple[S, Reply | None]:
        """The record of a request, and the provider's own answer to it (a refusal, a list of models), None when the
        script answers."""
        raise NotImplementedError

    def out_of_script(self) -> Reply:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------- server's side
    def respond(self, exchange: Exchange) -> Reply:
        seen, own = self.judge(exchange)
        with self._changed:
            self.seen.append(seen)
            self._changed.notify_all()
        if own is not None and (self.strict or seen.violation is None):
            return own
        answer: Any = self._next()
        found: Reply = answer if isinstance(answer, Reply) else answer(seen)
        return found

    def _next(self) -> Reply | Callable[[S], Reply]:
        with self._changed:
            if self._always is not None:
                return self._always
            if self._script:
                return self._script.pop(0)
        return self.out_of_script()
