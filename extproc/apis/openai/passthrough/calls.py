"""The tool calls of a Chat Completions response that passes: their number, names and positions.

`CallIndex` assigns the fragments to calls, as for the response decoder. Nothing is sent to the sequencer, because the
fragments pass unchanged.
"""

from __future__ import annotations

from extproc.apis.openai.provider.call_index import CallIndex
from extproc.apis.openai.wire_response import CallDelta
from extproc.conversation.model import Signature
from extproc.conversation.pending_call import PendingCall
from extproc.conversation.sequencer import too_long_call
from extproc.errors import Failure


class _CallObserver:
    """Receives calls and fragments from a `CallIndex` and only observes them."""

    def __init__(self, offered: dict[str, str], most_arguments: int) -> None:
        self.failure: Failure | None = None
        self._offered = offered
        self._most_arguments = most_arguments

    def new_call(self, id: str | None = None, *, signature: Signature | None = None) -> PendingCall:
        return PendingCall(id)

    def call_delta(self, call: PendingCall, name: str | None, arguments: str | None) -> None:
        if name:
            call.add_name(name, self._offered)
        if arguments:
            call.add_arguments(arguments)
            call.take_unsent()
            if call.size > self._most_arguments:
                self.fail(too_long_call(call.name, self._most_arguments))

    def fail(self, failure: Failure) -> None:
        self.failure = self.failure or failure


class ChoiceCalls:
    """The calls of one choice: the call of each entry, and its index for the client."""

    def __init__(self, offered: dict[str, str], most_arguments: int) -> None:
        self.count = 0
        self._observer = _CallObserver(offered, most_arguments)
        self._index = CallIndex(self._observer, offered, free_text=False)
        self._positions: dict[PendingCall, int] = {}
        self._names: dict[PendingCall, str] = {}

    @property
    def failure(self) -> Failure | None:
        return self._observer.failure

    @property
    def names(self) -> list[str]:
        """The names of the calls as received so far."""
        return [call.name for call in self._positions]

    def client_positions(self, entries: list[CallDelta | None], *,
                         whole: bool) -> list[tuple[int, bool, str | None] | None]:
        """For each entry: its index for the client, whether its call begins, and the rest of the name that the client
        lacks (None: nothing). None for an empty entry."""
        out: list[tuple[int, bool, str | None] | None] = []
        for entry, call in zip(entries, self._index.read_entries(entries, whole=whole), strict=True):
            if entry is None or call is None:
                out.append(None)
                continue
            begins = call not in self._positions
            if begins:
                self._positions[call] = self.count
                self.count += 1
            had = self._names.get(call, "")
            self._names[call] = call.name
            out.append((self._positions[call], begins, call.name[len(had):] if call.name.startswith(had) else None))
        return out
