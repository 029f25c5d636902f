"""Forms of single families: InternLM2's `<|action_start|><|plugin|>{...}<|action_end|>`."""

from __future__ import annotations

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.dialect import Dialect
from extproc.dialects.json.body import read_call
from extproc.dialects.parse_context import NoMatch, ParseContext

_STOP = Marks(["<|action_end|>", "<|action_start|>"])


class Action:
    """One call object behind the two markers, which white space may part."""

    openers: tuple[str, ...] = ("<|action_start|>",)
    blocks = (("<|action_start|>", "<|action_end|>"), ("<|action_start|>", "<|plugin|><|action_end|>"))

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        if not (yield from buffer.literal("<|plugin|>")):
            raise NoMatch
        yield from buffer.space()
        yield from read_call(io, _STOP)
        while True:
            yield from buffer.space()
            if not (yield from buffer.literal("}")):
                break
        yield from buffer.literal("<|action_end|>")


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="internlm2", forms=(Action(),), ends=("<|im_end|>",)),
)
