"""The official OpenAI SDK on the Responses API, in the vocabulary of `clients`; and all clients of the matrix."""

from __future__ import annotations

import json
from typing import Any

import openai

from tests.e2e.matrix.clients import AnthropicClient, Called, Figures, OpenAIClient, Result, Said, Talk, Wish


class ResponsesTalk(Talk):
    """The output items of a turn come back as they are, as the API's documentation has it without a store."""

    def __init__(self, sdk: openai.OpenAI, wish: Wish) -> None:
        super().__init__(wish)
        self._sdk = sdk

    def say(self, text: str, *, image: str | None = None, document: str | None = None) -> None:
        parts: list[Any] = [{"type": "input_text", "text": text}]
        parts += [_image_part(image)] if image else []
        if document:
            parts.append({"type": "input_file", "filename": "a.pdf",
                          "file_data": f"data:application/pdf;base64,{document}"})
        self.messages.append({"role": "user", "content": parts if len(parts) > 1 else text})

    def answer(self, *results: tuple[Called, Result]) -> None:
        self.messages += [{"type": "function_call_output", "call_id": called.id,
                           "output": [{"type": "input_text", "text": result.text}, _image_part(result.image)]
                           if result.image else result.text} for called, result in results]

    def turn(self) -> Said:
        pieces = 0
        response: Any
        if self.wish.streamed:
            response, pieces = self._streamed()
        elif self.wish.format is not None:
            response = self._sdk.responses.parse(**self._asked(), text_format=self.wish.format)
        else:
            response = self._sdk.responses.create(**self._asked())
        self.messages += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
        usage = response.usage
        return Said(
            response.output_text,
            "".join(part.text for item in response.output if item.type == "reasoning" for part in item.summary),
            [Called(item.call_id, item.name, json.loads(item.arguments)) for item in response.output
             if item.type == "function_call"],
            _stop(response),
            Figures(usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens,
                    usage.output_tokens_details.reasoning_tokens),
            response.model, pieces, getattr(response, "output_parsed", None))

    def _streamed(self) -> tuple[Any, int]:
        """The response of the SDK's accumulator, and the number of pieces of text. The accumulator knows completed
        responses only, and no way of reading a stream raises for a failed one: programs look at the last event."""
        pieces = 0
        last: Any = None
        more: dict[str, Any] = {} if self.wish.format is None else {"text_format": self.wish.format}
        with self._sdk.responses.stream(**self._asked(), **more) as stream:
            for event in stream:
                pieces += event.type == "response.output_text.delta"
                last = event
            if last.type == "response.completed":
                return stream.get_final_response(), pieces
        if last.type != "response.incomplete":
            error = getattr(getattr(last, "response", None), "error", None)
            raise openai.APIError(error.message if error else "no end", request=None, body=None)  # type: ignore[arg-type]
        return last.response, pieces

    def _asked(self) -> dict[str, Any]:
        wish = self.wish
        asked: dict[str, Any] = {"model": wish.model, "max_output_tokens": wish.limit, "input": self.messages,
                                 "store": False, "include": ["reasoning.encrypted_content"]}
        if wish.system:
            asked["instructions"] = wish.system
        if wish.tools:
            asked["tools"] = [{"type": "function", "name": tool.name, "description": tool.description,
                               "parameters": tool.schema, "strict": False} for tool in wish.tools]
        if wish.forced:
            asked["tool_choice"] = {"type": "function", "name": wish.forced}
        if not wish.parallel:
            asked["parallel_tool_calls"] = False
        if wish.thinking:
            asked["reasoning"] = {"effort": "low", "summary": "auto"}
        if wish.temperature is not None:
            asked["temperature"] = wish.temperature
        return asked


def _stop(response: Any) -> str:
    if response.incomplete_details is not None:
        return {"max_output_tokens": "length", "content_filter": "refusal"}[response.incomplete_details.reason]
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    if any(part.type == "refusal" for part in parts):
        return "refusal"
    return "calls" if any(item.type == "function_call" for item in response.output) else "end"


def _image_part(data: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": f"data:image/png;base64,{data}", "detail": "auto"}


class ResponsesClient(OpenAIClient):
    name = "responses"

    def talk(self, wish: Wish) -> ResponsesTalk:
        return ResponsesTalk(self.sdk, wish)


CLIENTS: tuple[type[AnthropicClient | OpenAIClient | ResponsesClient], ...] = (
    OpenAIClient, AnthropicClient, ResponsesClient)
