"""Tool results as function responses: one per call, an object each, with the media that may stand in it.

Called by the contents encoder with results that are paired with their calls already. Media that a function response
cannot hold come back beside it, for the user content behind all responses.
"""

from __future__ import annotations

import msgspec

from extproc.apis.gemini.provider.media import MediaEncoder
from extproc.apis.gemini.provider.wire import FunctionResponse, Part, Response, ResultPart
from extproc.apis.shared.media import lost_media, text_of_media
from extproc.conversation.model import Text, ToolResult
from extproc.conversation.notes import NO_OUTPUT
from extproc.conversation.unsupported import Dropped


class EncodedResult(msgspec.Struct, frozen=True):
    """`moved`: parts that must stand in a user content behind the responses."""

    response: FunctionResponse
    moved: list[Part]


def encode_result(result: ToolResult, name: str, call_id: str | None, media: MediaEncoder,
                  dropped: Dropped) -> EncodedResult:
    """`name` is the provider's name of the called function, `call_id` the id that the call was sent with."""
    content = result.content
    if len(content) == 1 and type(only := content[0]) is Text:  # nearly always
        return EncodedResult(FunctionResponse(name, _response(only.text, result), call_id), [])
    texts: list[str] = []
    inside: list[ResultPart] = []
    moved: list[Part] = []
    for block in content:
        if type(block) is Text:
            texts.append(block.text)
        elif (text := text_of_media(block)) is not None:
            texts.append(text)
        elif (blob := media.in_result(block)) is not None:
            texts.append(f"[{block.kind} attached]")
            inside.append(ResultPart(blob))
        elif parts := media.carried(block):
            texts.append(f"[{block.kind} attached in the next user message]")
            moved += parts
        else:
            texts.append(lost_media(block, dropped))
    if moved:
        about = f"Attached to the result of {name}" + (f" ({call_id})" if call_id is not None else "")
        moved.insert(0, Part(text=f"{about}:"))
    response = _response("\n".join(filter(None, texts)), result)
    return EncodedResult(FunctionResponse(name, response, call_id, inside), moved)


def _response(said: str, result: ToolResult) -> Response:
    said = said or NO_OUTPUT
    return Response(error=said) if result.is_error else Response(output=said)
