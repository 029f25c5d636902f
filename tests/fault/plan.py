"""What is asked and what goes wrong: one `Plan` per request, drawn from a seed.

A plan travels in the prompt, so the provider needs no state: who it is, which fault is its own, the checksum of the
rest of the prompt. `Plan.must_work` and `Plan.serving` say which ends are right for the client.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Api = Literal["anthropic", "openai", "events"]
CLIENTS: tuple[Api, ...] = ("anthropic", "openai", "events")
BACKENDS = {"o": "openai", "a": "anthropic", "g": "gemini"}
ROUTES = ("o", "a", "g", "oa", "og", "ao", "ag", "go", "ga", "oag", "gao")
"""Routes by the first letters of their attempts; a model's name is `ROUTE.NUMBER`."""

FIRST_TOKEN, IDLE, LATE = 2.0, 5.0, 3.5
"""Seconds: the patience of attempts that another one follows, the gateway's for silence, how late a late answer is."""

BEFORE = ("status_429", "status_500", "status_503", "status_529", "status_401", "reset_before_head",
          "close_before_head", "reset_behind_head", "error_before_token", "web_page", "empty", "hang")
"""Faults before the first token."""
MIDDLE = ("reset", "cut", "end", "malformed", "bad_framing", "error_inside", "stall")
"""Faults behind the first token: a TCP reset; the connection closed inside a chunked body; a proper end of the body but
none of the answer; what is not JSON; a chunk without a size; an error of the provider's; silence."""
HARMLESS = ("none", "shredded", "slow")
"""What is no fault: bytes cut anywhere, pauses."""
LONG = 8.0
"""Seconds of a `long` answer, which is no fault either."""
LEAVING = ("fin", "rst", "fin_early", "rst_early", "rst_in_upload")
"""How clients leave: in the middle of the answer, before it begins, in the middle of their request."""


@dataclass(frozen=True)
class Fault:
    """`at`: the number of tokens that are sent before it."""

    name: str = "none"
    at: int = 0


@dataclass(frozen=True)
class Plan:
    """`faults` by attempt; `leaves`: "" or how the client leaves, after `leave_at` bytes (or milliseconds)."""

    number: int
    seed: int
    client: Api
    route: str
    streamed: bool
    calls: int
    faults: tuple[Fault, ...]
    leaves: str = ""
    leave_at: int = 0
    filler: int = 0

    @property
    def model(self) -> str:
        return f"{self.route}.{self.number}"

    @property
    def backends(self) -> list[str]:
        return [BACKENDS[letter] for letter in self.route]

    @property
    def prompt(self) -> str:
        """The script for the provider in front of text that it checks."""
        draw = random.Random(f"prompt {self.seed}")
        text = "".join(draw.choice(("word ", "ü", "🙂 ", "\\n", "\n", "\"", "1234567890 ")) for _ in range(self.filler))
        script = {"number": self.number, "seed": self.seed, "calls": self.calls, "filler": self.filler,
                  "faults": {backend: asdict(fault) for backend, fault in zip(self.backends, self.faults, strict=True)},
                  "digest": hashlib.sha256(text.encode()).hexdigest()}
        return f"<<{json.dumps(script)}>>{text}"

    # ------------------------------------------------------------------------------------------------ what is right

    def works(self, attempt: int) -> bool:
        """Whether this attempt gives a whole answer."""
        name, last = self.faults[attempt].name, attempt == len(self.faults) - 1
        # The first token's time holds for streams, and where another attempt follows.
        return name in (*HARMLESS, "long") or (name == "late" and (last or not self.streamed))

    @property
    def serving(self) -> list[str]:
        """Backends that may give a whole answer. An attempt may be passed by for a provider that failed too often."""
        return [backend for number, backend in enumerate(self.backends) if self.works(number)]

    @property
    def must_work(self) -> bool:
        """Whether anything but a whole answer is an error: an attempt works, and none before it begins an answer."""
        for number, fault in enumerate(self.faults):
            if self.works(number):
                return True
            if self.streamed and fault.name in MIDDLE:
                return False
        return False

    @property
    def may_reset(self) -> bool:
        """Whether a provider breaks the connection behind the first token, on which the processor has no say."""
        return self.streamed and any(fault.name in ("reset", "cut", "bad_framing", "reset_behind_head")
                                     for fault in self.faults)

    @property
    def exact(self) -> bool:
        """Whether all tokens that are used are told: every attempt is whole or ends before its first token."""
        if self.leaves:
            return False
        for number, fault in enumerate(self.faults):
            if self.works(number):
                return True
            if not fault.name.startswith("status_") and fault.name not in ("reset_before_head", "close_before_head"):
                return False  # it took the prompt, and what it made of it nobody knows
        return True

    @property
    def kind(self) -> str:
        """Its row in the table."""
        return self.leaves if self.leaves else self.faults[0].name


KINDS = {
    "none": "nothing", "shredded": "nothing; bytes cut anywhere", "slow": "nothing; pauses", "long": "nothing; long",
    "late": f"{LATE:g} s without a head", "hang": "nothing comes at all",
    "status_401": "401", "status_429": "429", "status_500": "500", "status_503": "503", "status_529": "529",
    "reset_before_head": "reset before the head", "close_before_head": "closed before the head",
    "reset_behind_head": "reset behind the head", "empty": "200 and an empty body", "web_page": "200 and a web page",
    "error_before_token": "200 and an error", "reset": "reset in the answer", "cut": "closed in the answer",
    "end": "a clean end without the rest", "malformed": "what is not JSON", "bad_framing": "a chunk without a size",
    "error_inside": "an error in the answer", "stall": "silence in the answer",
    "fin": "the client closes in the answer", "rst": "the client resets in the answer",
    "fin_early": "the client closes before the answer", "rst_early": "the client resets before the answer",
    "rst_in_upload": "the client resets in its request"}
"""The rows of the table, by `Plan.kind`."""

SCRIPT = re.compile(r"<<(\{.*?\})>>(.*)", re.S)


def read_script(prompt: str) -> tuple[dict[str, Any], bool]:
    """The script of a prompt, and whether the rest of it arrived undamaged."""
    found = SCRIPT.fullmatch(prompt)
    if found is None:
        return {}, False
    script: dict[str, Any] = json.loads(found[1])
    return script, hashlib.sha256(found[2].encode()).hexdigest() == script["digest"]


def plans(seed: int, count: int, *, patient: bool = True) -> list[Plan]:
    """As many requests, all mixtures by chance; `patient`: also faults that take seconds."""
    draw = random.Random(seed)
    made = (_plan(draw, number) for number in itertools.count())
    if not patient:
        made = (plan for plan in made if not {fault.name for fault in plan.faults} & {"hang", "late", "stall"})
    return list(itertools.islice(made, count))


def calm_plans(seed: int) -> Iterator[Plan]:
    """Requests without faults, without end; every tenth takes long."""
    draw = random.Random(seed)
    for number in itertools.count():
        client, route = draw.choice(CLIENTS), draw.choice(ROUTES)
        fault = Fault("long" if number % 10 == 0 else draw.choice(HARMLESS))
        yield Plan(number, draw.randrange(2**31), client, route, client == "events" or draw.random() < 0.7,
                   draw.choice((0, 0, 1, 2)), (fault,) * len(route), filler=draw.choice((10, 100, 1000, 20_000)))


def _plan(draw: random.Random, number: int) -> Plan:
    client = draw.choice(CLIENTS)
    route = draw.choice(ROUTES)
    streamed = client == "events" or draw.random() < 0.7
    # A third has no fault at all; elsewhere every attempt but the last of a route is likely to have one.
    calm = draw.random() < 0.34
    faults = tuple(Fault(draw.choice(HARMLESS)) if calm else _fault(draw, last=index == len(route) - 1)
                   for index in range(len(route)))
    leaves, leave_at = "", 0
    if draw.random() < 0.12:
        leaves = draw.choice(LEAVING)
        leave_at = draw.choice((1, 10, 50, 150)) if leaves.endswith("early") else draw.randint(1, 6000)
    return Plan(number, draw.randrange(2**31), client, route, streamed, draw.choice((0, 0, 1, 2)), faults, leaves,
                leave_at, draw.choice((10, 100, 1000, 20_000)))


def _fault(draw: random.Random, *, last: bool) -> Fault:
    chance = draw.random()
    if chance < (0.45 if last else 0.15):
        return Fault(draw.choice(HARMLESS))
    if chance < (0.7 if last else 0.75):
        # What takes long is rare, or all would wait for it.
        name = draw.choice(BEFORE[:-1]) if draw.random() < 0.94 else draw.choice(("hang", "late"))
        return Fault(name)
    name = draw.choice(MIDDLE[:-1]) if draw.random() < 0.92 else "stall"
    return Fault(name, draw.randint(1, 30))
