"""A strict, scripted Gemini provider, AI Studio and Vertex by path: requests in, scripted answers out.

A test gives it a script of `text`, `calls`, `parts`, `blocked`, `error` ...; a request that Google would refuse gets
Google's 400 and is kept in `provider.violations`. Answers adapt to the request: an event stream, the JSON array of a
stream without `alt=sse`, or one object. The signatures that it gives out are its own: each must come back, to the same
model at the same door, on the part that it came with, byte for byte.
"""

from __future__ import annotations

import base64
import json as jsonlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from tests.providers.gemini_rules import Refusal, refused
from tests.providers.gemini_wire import (
    JSON,
    USAGE,
    End,
    Part,
    array,
    cut,
    error,
    error_info,
    in_pieces,
    invalid_key,
    json,
    response,
    sse,
    status,
)
from tests.providers.http import Exchange, Gate, Reply
from tests.providers.scripted import JsonRecord, ScriptedProvider, decoded

KEY = "AIza-scripted-0123456789"
TOKEN = "ya29.scripted-0123456789"
"""The key of AI Studio paths and the bearer token of Vertex paths that the provider wants."""
STUDIO_BASE = "/v1beta"
VERTEX_BASE = "/v1/projects/a-project/locations/global/publishers/google"
PATH = re.compile(r"(?:/v1(?:beta|alpha)?|/v1(?:beta1)?/projects/[^/]+/locations/[^/]+/publishers/google)"
                  r"/models/([^/:]+):(\w+)")
FOREIGN_HEADERS = ("x-api-key", "anthropic-version", "anthropic-beta", "openai-organization", "cookie")
SIGNATURE_BYTES = (60, 700, 33, 3000)
"""Lengths that take turns: with and without padding, and long ones."""


@dataclass
class Seen(JsonRecord):
    """A recorded request with what its URL says."""

    model: str = ""
    verb: str = ""
    sse: bool = False
    vertex: bool = False
    sign: Callable[[Part], str] = field(default=lambda part: "", repr=False)
    """A new signature for a part of the answer, from now on known to the provider."""

    @property
    def issuer(self) -> str:
        """Who signs: the model at its door, such as `gemini-3-pro-preview` or `vertex/gemini-3-pro-preview`."""
        return f"vertex/{self.model}" if self.vertex else self.model

    @property
    def streamed(self) -> bool:
        return self.verb == "streamGenerateContent"

    @property
    def contents(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body["contents"]
        return found

    @property
    def config(self) -> dict[str, Any]:
        return self.body.get("generationConfig") or {}

    @property
    def thoughts(self) -> bool:
        """Whether the request asks for thoughts."""
        return bool((self.config.get("thinkingConfig") or {}).get("includeThoughts"))

    def roles(self) -> list[str]:
        return [content["role"] for content in self.contents]

    def held(self, key: str) -> list[dict[str, Any]]:
        """Every `functionCall`, `functionResponse` ... of the conversation, in order."""
        return [part[key] for content in self.contents for part in content["parts"] if key in part]

    def signatures(self) -> list[str]:
        return [part["thoughtSignature"] for content in self.contents for part in content["parts"]
                if "thoughtSignature" in part]


Answer = Callable[[Seen], Reply]


class GeminiProvider(ScriptedProvider[Seen]):
    """See the module's docstring. `issued` (issuer -> signature -> part) outlives `clear`, as a provider's own memory
    would."""

    def __init__(self, *, strict: bool = True) -> None:
        super().__init__(strict=strict)
        self.issued: dict[str, dict[str, Part]] = {}
        self._count = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{STUDIO_BASE}"

    @property
    def vertex_url(self) -> str:
        return f"http://127.0.0.1:{self.port}{VERTEX_BASE}"

    def sign(self, issuer: str, part: Part) -> str:
        self._count += 1
        size = SIGNATURE_BYTES[self._count % len(SIGNATURE_BYTES)]
        seed = blake2b(f"{issuer} {self._count}".encode()).digest()
        signature = base64.b64encode((seed * (size // len(seed) + 1))[:size]).decode()
        self.issued.setdefault(issuer, {})[signature] = part
        return signature

    # ------------------------------------------------------------------------------------------- server's side
    def judge(self, exchange: Exchange) -> tuple[Seen, Reply | None]:
        url = urlsplit(exchange.path)
        found = PATH.fullmatch(url.path)
        seen = Seen(exchange, decoded(exchange.raw), vertex="/projects/" in url.path)
        if exchange.method == "GET" and url.path.endswith("/models"):
            return seen, json({"models": []})
        if found is None or exchange.method != "POST":
            seen.violation = f"no such method: {exchange.method} {exchange.path}"
            return seen, error(404, "Requested entity was not found.")
        seen.model, seen.verb = unquote(found[1]), found[2]
        seen.sse = parse_qs(url.query).get("alt") == ["sse"]
        seen.sign = lambda part: self.sign(seen.issuer, part)
        if denied := key_refusal(exchange, url.query, vertex=seen.vertex):
            seen.violation = "the key: " + jsonlib.loads(b"".join(b for b in denied.body if isinstance(b, bytes)))[
                "error"]["message"]
            return seen, denied
        seen.violation = foreign(exchange, vertex=seen.vertex)
        if seen.verb == "countTokens":
            return seen, json({"totalTokens": max(1, len(exchange.raw) // 4)})
        if seen.verb not in ("generateContent", "streamGenerateContent"):
            seen.violation = f"no such method: {seen.verb}"
            return seen, error(404, "Requested entity was not found.")
        refusal = refused(seen.body, seen.model, vertex=seen.vertex, issued=self.issued.get(seen.issuer, {}))
        if refusal is not None:
            seen.violation = refusal.message
        if seen.violation is not None:
            return seen, status(400, (refusal or Refusal(seen.violation)).body())
        return seen, None

    def out_of_script(self) -> Reply:
        return error(500, "the script of this test has no further answer")


def key_refusal(exchange: Exchange, query: str, *, vertex: bool) -> Reply | None:
    """What Google says to a missing or wrong key."""
    if vertex:
        if exchange.headers.get("authorization") == f"Bearer {TOKEN}":
            return None
        return error(401, "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "
                     "or other valid authentication credential.", [error_info("ACCESS_TOKEN_TYPE_UNSUPPORTED")])
    given = exchange.headers.get("x-goog-api-key") or "".join(parse_qs(query).get("key", []))
    if not given:
        return error(403, "Method doesn't allow unregistered callers (callers without established identity). Please "
                     "use API Key or other form of API consumer identity to call this API.")
    return None if given == KEY else invalid_key()


def foreign(exchange: Exchange, *, vertex: bool) -> str | None:
    """Headers of another API, of the client, or of the other door."""
    unwanted = [*FOREIGN_HEADERS, "x-goog-api-key" if vertex else "authorization"]
    if held := [name for name in unwanted if name in exchange.headers]:
        return f"a header that does not belong here: {held[0]}"
    if "key=" in exchange.path:
        return "the key stands in the path"
    if "application/json" not in exchange.headers.get("content-type", ""):
        return "the content type is not application/json"
    return None


# ---------------------------------------------------------------------------------------------------- parts of answers
@dataclass
class Signed:
    """A part that gets a signature; `whole` is the call that it begins, when its arguments come in pieces."""

    part: Part
    whole: Part | None = None


Chunk = Sequence[Part | Signed]


def call(name: str, args: Any = None, *, id: str | None = None) -> Part:
    """A functionCall; without arguments `args` is absent, as Google does for {}."""
    found: dict[str, Any] = {} if id is None else {"id": id}
    found["name"] = name
    if args:
        found["args"] = args
    return {"functionCall": found}


def thought(content: str) -> Part:
    return {"text": content, "thought": True}


def partial_call(name: str, args: Mapping[str, Any], pieces: Sequence[Mapping[str, Any]], *,
                 signed: bool = True) -> list[Chunk]:
    """The chunks of a call whose arguments come in `partialArgs` (Vertex): name, one piece each, end. `args` is what
    they amount to."""
    first: Part = {"functionCall": {"name": name, "willContinue": True}}
    whole = call(name, dict(args))
    chunks: list[Chunk] = [[Signed(first, whole) if signed else first]]
    chunks += [[{"functionCall": {"partialArgs": [dict(piece)], "willContinue": True}}] for piece in pieces]
    return [*chunks, [{"functionCall": {}}]]


# ------------------------------------------------------------------------------------------------------------ answers
def text(content: str, *, thoughts: str = "", pieces: int = 5, signature: Literal["none", "last", "empty"] = "none",
         **how: Any) -> Answer:
    """A text answer in pieces of `pieces` characters. `signature`: on its last part, or on an empty one after it.
    Thoughts are only sent to who asks for them. More in `parts`."""
    def chunks(seen: Seen) -> list[Chunk]:
        found: list[Chunk] = [[thought(piece)] for piece in cut(thoughts, pieces)] if seen.thoughts else []
        said: list[Part] = [{"text": piece} for piece in cut(content, pieces)]
        found += [[part] for part in said]
        if signature == "last" and said:
            found[-1] = [Signed(said[-1])]
        if signature == "empty":
            found.append([Signed({"text": ""})])
        return found
    return parts(chunks, **how)


def calls(*wanted: tuple[str, Any], content: str = "", thoughts: str = "", ids: Sequence[str] = (),
          together: bool = True, signed: bool | None = None, **how: Any) -> Answer:
    """Function calls as (name, args): all in one chunk or one chunk each. `signed`: the first one has a signature; None
    for what the model does (from 2.5 on it has)."""
    def chunks(seen: Seen) -> list[Chunk]:
        found: list[Chunk] = [[thought(thoughts)]] if thoughts and seen.thoughts else []
        found += [[{"text": content}]] if content else []
        made: list[Part | Signed] = [call(name, args, id=ids[i] if ids else None)
                                     for i, (name, args) in enumerate(wanted)]
        old = re.match(r"gemini-[12]\.[0-4]|gemma", seen.model)
        if made and (signed or (signed is None and not old)):
            first = made[0]
            assert isinstance(first, dict)
            made[0] = Signed(first)
        return [*found, made] if together else [*found, *[[part] for part in made]]
    return parts(chunks, **how)


def parts(chunks: Sequence[Chunk | Gate] | Callable[[Seen], Sequence[Chunk | Gate]], *, finish: str | None = "STOP",
          message: str | None = None, finish_alone: bool = False, usage: Mapping[str, Any] | None = USAGE,
          usage_every: bool = False, candidate: Mapping[str, Any] | None = None, split: int = 0,
          newline: str = "\r\n", end: End = "end") -> Answer:
    """Any answer: chunks of parts, gates between them. `finish_alone`: in a chunk of its own, without content;
    `candidate`: more fields of the last candidate; `split`: bytes per piece of the body; `usage_every`: in every chunk,
    counting up."""
    def answer(seen: Seen) -> Reply:
        wanted = list(chunks(seen) if callable(chunks) else chunks)
        ready = [one if isinstance(one, Gate) else [ready_part(part, seen) for part in one] for one in wanted]
        if not seen.streamed:
            ready = [[part for one in ready if not isinstance(one, Gate) for part in one]]
        if finish_alone or not ready or isinstance(ready[-1], Gate):
            ready.append([])
        items: list[dict[str, Any] | Gate] = []
        for i, one in enumerate(ready):
            last = i == len(ready) - 1
            if isinstance(one, Gate):
                items.append(one)
                continue
            counted = usage if last else early_usage(usage, i) if usage_every and usage else None
            items.append(response(one, finish=finish if last else None, message=message if last else None,
                                  usage=counted, model=seen.model, **(candidate or {} if last else {})))
        return whole(items, seen, split=split, newline=newline, end=end)
    return answer


def ready_part(part: Part | Signed, seen: Seen) -> Part:
    if isinstance(part, dict):
        return part
    return {**part.part, "thoughtSignature": seen.sign(part.whole or part.part)}


def early_usage(usage: Mapping[str, Any], i: int) -> dict[str, Any]:
    return {**usage, "candidatesTokenCount": i, "totalTokenCount": usage["promptTokenCount"] + i}


def stopped(reason: str, message: str | None = None) -> Answer:
    """An answer without any content that ends for `reason`."""
    return whole_of({**response(None, finish=reason, message=message, usage=USAGE)})


def blocked(reason: str = "PROHIBITED_CONTENT") -> Answer:
    """The prompt is blocked: no candidates."""
    return whole_of({"promptFeedback": {"blockReason": reason},
                     "usageMetadata": {"promptTokenCount": 21, "totalTokenCount": 21}, "modelVersion": "scripted",
                     "responseId": "scripted-response-1"})


def whole_of(*items: dict[str, Any] | Gate) -> Answer:
    return lambda seen: whole(items, seen)


def whole(items: Sequence[dict[str, Any] | Gate], seen: Seen, *, split: int = 0, newline: str = "\r\n",
          end: End = "end") -> Reply:
    """The responses in the form that the request asks for."""
    if not seen.streamed:
        data = [one for one in items if not isinstance(one, Gate)]
        return Reply(200, dict(JSON), in_pieces([jsonlib.dumps(data[-1]).encode()], split), end=end)
    return (sse if seen.sse else array)(items, split=split, newline=newline, end=end)
