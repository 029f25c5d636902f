"""One call that came twice, natively and as text: which of the calls of an answer repeat one that went out.

Some servers tell a call by their API and leave the same call as text beside it (older parsers of vLLM and SGLang). A
client would run it twice. The sequencer asks here; two native calls alike are two, and so are two written ones, as a
model may well mean that. What went out is never taken back, so a call that may be a repetition waits until it is whole.
"""

from __future__ import annotations

import json
from hashlib import blake2b

from extproc.calls import PendingCall


class Twins:
    """The calls of one answer that went out and have not been repeated. `limit`: most characters of arguments that are
    compared; longer ones need not wait, and are never taken for a repetition."""

    __slots__ = ("_limit", "_sent")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sent: dict[tuple[str, bool], list[bytes]] = {}
        """By the tool's name and whether they were written."""

    def awaits(self, name: str, call: PendingCall) -> bool:
        """Whether `call`, of which nothing went out yet, may turn out to be a repetition."""
        return call.size <= self._limit and (name, not call.written) in self._sent

    def repeats(self, name: str, call: PendingCall, healed: str | None = None) -> bool:
        """Whether `call`, which is whole, repeats one that went out the other way; that one is used up by it. Else it
        goes out itself, and is remembered. `healed`: its arguments, where they are not sent as they came."""
        if call.size > self._limit or (value := _value(call.arguments if healed is None else healed)) is None:
            return False
        others = self._sent.get((name, not call.written), [])
        if call.opened or value not in others:
            self._sent.setdefault((name, call.written), []).append(value)
            return False
        others.remove(value)
        if not others:
            del self._sent[name, not call.written]
        return True


def _value(arguments: str) -> bytes | None:
    """The same for two JSON texts of one value, whatever their order and white space; None when it is not JSON."""
    try:
        value = json.loads(arguments.strip() or "{}", parse_float=_number)
        return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).digest()
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float | int:
    """`2.0` and `2` are one value."""
    number = float(text)
    return int(number) if number.is_integer() else number
