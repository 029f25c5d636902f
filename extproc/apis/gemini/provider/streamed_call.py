"""A function call whose arguments come in pieces: `functionCall` parts of Vertex -> one whole call.

Used by the answer decoder, which decides what a part without a promise of more means. It knows the habits of the
servers: the name only in the first piece or in each, pieces without values, an empty part as the end, all arguments
once more as `args`.

Source: Vertex AI, "Function calling", streaming of arguments (`streamFunctionCallArguments`).
"""

from __future__ import annotations

import msgspec

from extproc.apis.gemini.provider.chunks import FunctionCall
from extproc.apis.gemini.provider.partial_args import PartialArguments, PieceError
from extproc.errors import Failure


class StreamedCall:
    """One call. `limit`: most characters of its arguments."""

    def __init__(self, limit: int) -> None:
        self.id: str | None = None
        self.name = ""
        self.signature: str | None = None
        self._limit = limit
        self._pieces = PartialArguments()
        self._args = ""

    def goes_on_with(self, call: FunctionCall) -> bool:
        """Whether this part belongs to the call: it has no other name and no other id, and does not bring a whole call
        of its own."""
        if call.id_text is not None and self.id is not None and call.id_text != self.id:
            return False
        return not self.name or call.name_text in ("", self.name)

    def take(self, call: FunctionCall, signature: str | None) -> Failure | None:
        """A part of the call. Returns why it cannot go on."""
        self.name = self.name or call.name_text
        self.id = self.id or call.id_text
        self.signature = self.signature or signature
        arguments = call.arguments
        if arguments not in ("", "{}"):
            self._args = arguments
        try:
            for piece in call.partial_args or ():
                if piece is not None:
                    self._pieces.add(piece)
        except (PieceError, msgspec.DecodeError, RecursionError) as problem:
            return Failure("server", f"The provider streamed arguments of the tool {self.name[:100]!r} that cannot be "
                                     f"put together: {problem}.")
        if self._pieces.size > self._limit:
            return Failure("server", "The provider sent a tool call with arguments of more than "
                                     f"{self._limit} characters.")
        return None

    @property
    def whole(self) -> bool:
        """Nothing that began is missing its end."""
        return bool(self._args) or self._pieces.complete

    @property
    def arguments(self) -> str:
        return self._args or self._pieces.text()

    @property
    def truncated_arguments(self) -> str:
        """What came, for a call that broke off."""
        return self._pieces.truncated_text()
