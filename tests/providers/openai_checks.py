"""Rules of endpoints in the OpenAI format that need code: what excludes what, and what differs by model.

`openai_strictness` says which endpoint has which. Each takes a decoded body that has OpenAI's form already and raises
`Refusal` in the endpoint's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from tests.providers.gemini_schema import check_schema
from tests.providers.refusals import Refusal, unsupported

Body = dict[str, Any]
Check = Callable[[Body], None]

# ------------------------------------------------------------------------------------------------- what they look at


def model_of(body: Body) -> str:
    return str(body.get("model", "")).lower().rpartition("/")[2]


def assistants(body: Body) -> Iterator[tuple[int, Body]]:
    for at, message in enumerate(body["messages"]):
        if message["role"] == "assistant":
            yield at, message


def forced(body: Body) -> bool:
    return isinstance(body.get("tool_choice"), dict) or body.get("tool_choice") in ("required", "any")


def last_user(body: Body) -> int:
    return max((at for at, message in enumerate(body["messages"]) if message["role"] == "user"), default=-1)


def parts(body: Body) -> Iterator[Body]:
    for message in body["messages"]:
        if isinstance(message.get("content"), list):
            yield from message["content"]


def refuses(*names: str, say: str = "Argument not supported: {}") -> Check:
    def check(body: Body) -> None:
        for name in names:
            if body.get(name) is not None:
                raise Refusal(say.format(name), name)
    return check


def only_for(pattern: str, name: str) -> Check:
    """A field that only some models know."""
    def check(body: Body) -> None:
        if name in body and not re.search(pattern, model_of(body)):
            raise Refusal(f"Model {body['model']} does not support parameter {name}.", name)
    return check


def efforts(*known: str) -> Check:
    def check(body: Body) -> None:
        effort = body.get("reasoning_effort")
        if effort is not None and effort not in known:
            raise unsupported(effort, known, "reasoning_effort")
    return check


def at_most(name: str, most: float) -> Check:
    def check(body: Body) -> None:
        if isinstance(body.get(name), int | float) and body[name] > most:
            raise Refusal(f"Invalid {name}: expected at most {most}", name)
    return check


def one_choice(body: Body) -> None:
    if body.get("n") not in (None, 1):
        raise Refusal("'n' must be 1", "n")


def no_format_beside_tools(body: Body) -> None:
    if body.get("tools") and body.get("response_format", {}).get("type") not in (None, "text"):
        raise Refusal("response_format is not supported together with tools", "response_format")


def text_only(pattern: str = "") -> Check:
    """No parts but text, except at models of this pattern."""
    def check(body: Body) -> None:
        if pattern and re.search(pattern, model_of(body)):
            return
        if any(part.get("type") not in ("text", "thinking") for part in parts(body)):
            raise Refusal("unknown variant `image_url`, expected `text`", "messages")
    return check


def images_as_data(body: Body) -> None:
    for part in parts(body):
        if part.get("type") == "image_url" and not part["image_url"]["url"].startswith("data:"):
            raise Refusal("'url' field must be a base64 encoded image.", "messages")


def no_files(body: Body) -> None:
    if any(part.get("type") in ("file", "input_audio") for part in parts(body)):
        raise Refusal("content type 'file' is not supported", "messages")


def four_marks(body: Body) -> None:
    if sum("cache_control" in part for part in [*parts(body), *body.get("tools", [])]) > 4:
        raise Refusal("A maximum of 4 blocks with cache_control may be provided.")


def data_of_reasoning(message: Body, kind: str) -> list[Body]:
    return [item for item in message.get("reasoning_details", []) if item["type"] == kind]


def one_call_a_turn(pattern: str) -> Check:
    """What the chat template of these models refuses."""
    def check(body: Body) -> None:
        if re.search(pattern, model_of(body)) and any(len(message.get("tool_calls", [])) > 1
                                                      for _, message in assistants(body)):
            raise Refusal("This model only supports single tool-calls at once!")
    return check


# ------------------------------------------------------------------------------------------------------------- OpenAI

_OLDER = r"^(ft:)?(gpt-[34]|gpt-oss|gpt-audio|chatgpt)"
_O_SERIES = r"^o[134](-|$)"
_OWN = r"^(ft:)?(gpt-|chatgpt|o[134](-|$))"
# The efforts of each generation, as the API's own errors list them for Chat Completions.
_EFFORTS = (
    (r"^gpt-6-astra|^gpt-6\.1-sol", ("low", "medium", "high", "xhigh")),
    (r"^gpt-5-pro", ("high",)),
    (r"-pro(-|$)", ("medium", "high", "xhigh")),
    (r"^gpt-5\.1(-|$)", ("none", "low", "medium", "high")),
    (r"^gpt-5(-|$)", ("minimal", "low", "medium", "high")),
    (_O_SERIES, ("low", "medium", "high")),
    (r"^gpt-", ("none", "low", "medium", "high", "xhigh")),
)
_TOOLS_WITHOUT_REASONING = r"^gpt-(5\.[4-9]|[6-9])"


def reasons(model: str) -> bool:
    """Whether it is one of OpenAI's own that reason."""
    return re.search(_OWN, model) is not None and re.search(_OLDER, model) is None and "chat" not in model


def openai_reasoning(body: Body) -> None:
    model = model_of(body)
    if not re.search(_OWN, model):
        return  # a server that is not OpenAI, where the rules are otherwise the same
    if not reasons(model):
        refuses("reasoning_effort", say="Unrecognized request argument supplied: {}")(body)
        return
    stop = () if model.startswith("o3-mini") else ("stop",)
    refuses(*stop, "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias",
            say="Unsupported parameter: '{}' is not supported with this model.")(body)
    if re.search(_O_SERIES, model):
        refuses("parallel_tool_calls", say="Unsupported parameter: '{}' is not supported with this model.")(body)
    known = next(known for pattern, known in _EFFORTS if re.search(pattern, model))
    efforts(*known)(body)
    if body.get("tools") and re.search(_TOOLS_WITHOUT_REASONING, model) and body.get("reasoning_effort") != "none":
        raise Refusal(f"Function tools with reasoning_effort are not supported for {body['model']} in "
                      "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to "
                      "'none'.", "reasoning_effort")


# ------------------------------------------------------------------------------------------------------------ DeepSeek


def deepseek_thinks(body: Body) -> bool:
    model = model_of(body)
    if model.startswith("deepseek-chat"):
        return False
    return model.startswith("deepseek-reasoner") or (body.get("thinking") or {}).get("type") != "disabled"


def deepseek(body: Body) -> None:
    if not deepseek_thinks(body):
        return
    if forced(body):
        raise Refusal("Thinking mode does not support this tool_choice", "tool_choice")
    for at, message in assistants(body):
        if message.get("tool_calls") and message.get("reasoning_content") is None:
            raise Refusal(f"Missing `reasoning_content` field in the assistant message at message index {at}.")


# ------------------------------------------------------------------------------------------------------------ Moonshot


def moonshot(body: Body) -> None:
    model = model_of(body)
    if model.startswith("moonshot-v1"):
        at_most("temperature", 1)(body)
        return
    k3 = model.startswith("kimi-k3")
    hybrid = re.match(r"kimi-k2\.[56]", model) is not None
    switch = (body.get("thinking") or {}).get("type")
    if switch is not None and "reasoning_effort" in body:
        raise Refusal("cannot specify both 'thinking' and 'reasoning_effort'")
    if switch == "disabled" and not hybrid:
        raise Refusal("thinking cannot be disabled for this model", "thinking")
    if not k3:
        refuses("reasoning_effort")(body)
    thinks = model != "kimi-k2-0905-preview" and switch != "disabled"
    if thinks and (isinstance(body.get("tool_choice"), dict) or (body.get("tool_choice") == "required" and not k3)):
        raise Refusal("tool_choice 'specified' is incompatible with thinking enabled", "tool_choice")
    if body.get("tool_choice") == "required" and not k3:
        raise Refusal("tool_choice 'required' is not supported", "tool_choice")
    if model != "kimi-k2-0905-preview":
        refuses("temperature", "top_p", "presence_penalty", "frequency_penalty",
                say="invalid {}: only the model's own value is allowed for this model")(body)
    if thinks:
        for at, message in assistants(body):
            if message.get("tool_calls") and not message.get("reasoning_content"):
                raise Refusal("thinking is enabled but reasoning_content is missing in assistant tool call message at "
                              f"index {at}")


# ---------------------------------------------------------------------------------------------------------------- xAI


def xai(body: Body) -> None:
    model = model_of(body)
    if not model.startswith("grok-2"):
        refuses("presence_penalty", "frequency_penalty", "logit_bias",
                say="Model does not support parameter {}.")(body)
    if not re.search("non-reasoning|^grok-2|^grok-3$", model):
        refuses("stop", say="Model does not support parameter {}.")(body)
    only_for(r"^grok-3-mini|^grok-4\.3|^grok-[5-9]", "reasoning_effort")(body)
    refuses("parallel_tool_calls")(body)
    if forced(body):
        raise Refusal("tool_choice is not supported by this model", "tool_choice")


# --------------------------------------------------------------------------------------------------------------- Z.AI


def zai(body: Body) -> None:
    switch = body.get("thinking") or {}
    if set(switch) - {"type", "clear_thinking"}:
        raise Refusal("Invalid API parameter, please check the documentation.", "thinking")
    if not model_of(body).startswith("glm-5.3"):
        efforts("max", "xhigh", "high", "medium", "low", "minimal", "none")(body)
        return
    efforts("low", "high", "max")(body)
    if switch.get("type") == "disabled":
        raise Refusal("This model always engages in thinking and cannot be disabled; please use low, high, or max.")


# ----------------------------------------------------------------------------------------------------- Groq, Cerebras


def groq(body: Body) -> None:
    only_for("gpt-oss|qwen3", "reasoning_effort")(body)
    if "gpt-oss" in model_of(body):
        efforts("low", "medium", "high")(body)
        refuses("reasoning_format", say="reasoning_format is not supported with this model: {}")(body)
    elif "qwen3" in model_of(body):
        efforts("none", "default")(body)
    if body.get("stream") and body.get("response_format", {}).get("type") == "json_schema":
        raise Refusal("response format `json_schema` does not support streaming", "response_format")
    for at, message in assistants(body):
        if any(value is None for value in message.values()):
            raise Refusal(f"'messages.{at}' : null is not allowed")


def cerebras(body: Body) -> None:
    only_for("gpt-oss|glm|qwen", "reasoning_effort")(body)
    if "gpt-oss" in model_of(body):
        efforts("low", "medium", "high")(body)
    else:
        efforts("none", "low", "medium", "high")(body)
        for at, message in assistants(body):
            if "reasoning" in message:
                raise Refusal(f"messages.{at}.assistant.reasoning: property is unsupported", code="wrong_api_format")


# -------------------------------------------------------------------------------------------------------------- Mistral


def mistral(body: Body) -> None:
    messages = body["messages"]
    reasons = re.search(r"magistral|small-latest|small-26|medium-3[.-]5|large-4", model_of(body))
    for before, message in pairwise(messages):
        if before["role"] == "tool" and message["role"] == "user":
            raise Refusal("Unexpected role 'user' after role 'tool'", code="3230")
    last = messages[-1]
    if last["role"] not in ("user", "tool") and not last.get("prefix"):
        raise Refusal("Expected last role User or Tool (or Assistant with prefix True) for serving but got "
                      f"{last['role']}", code="3230")
    if not reasons:
        refuses("reasoning_effort", say="reasoning_effort is not enabled for this model")(body)
        if any(part["type"] == "thinking" for part in parts(body)):
            raise Refusal("thinking chunks are not supported by this model")
    elif "large-4" not in model_of(body):
        efforts("none", "high")(body)


# ------------------------------------------------------------------------------------------------------------ DashScope


def dashscope(body: Body) -> None:
    model = model_of(body)
    by_default = re.search(r"^qwen3\.[5-9]|^qwen3-\d+b|^qwq|thinking|^deepseek|^glm|^kimi", model) is not None
    thinks = body.get("enable_thinking", by_default and "instruct" not in model)
    if not thinks:
        if re.search("qwq|thinking", model) and "enable_thinking" in body:
            raise Refusal("parameter.enable_thinking is restricted to True.")
        return
    if forced(body):
        raise Refusal("The tool_choice parameter does not support being set to required or object in thinking mode")
    if body.get("response_format", {}).get("type") not in (None, "text"):
        raise Refusal("Json mode response is not supported when enable_thinking is true")
    if re.search(r"^qwen3-\d+b", model) and not body.get("stream"):
        raise Refusal("parameter.enable_thinking must be set to false for non-streaming calls")


# ----------------------------------------------------------------------------------------------------------- OpenRouter


def grok(body: Body) -> None:
    """Of whoever passes a Grok's requests on."""
    if model_of(body).startswith("grok-"):
        if forced(body):
            raise Refusal("Provider returned error: tool_choice is not supported by this model", "tool_choice")
        no_format_beside_tools(body)


def glm(body: Body) -> None:
    """Of whoever passes a GLM's requests on."""
    if model_of(body).startswith("glm-") and forced(body):
        raise Refusal("Provider returned error: tool_choice only supports auto", "tool_choice")


def gemini_schemas(body: Body) -> None:
    """The schemas of tools and of structured output, which these endpoints hand on to Gemini."""
    for at, tool in enumerate(body.get("tools") or ()):
        schema = tool.get("function", {}).get("parameters")
        if schema and schema.get("properties"):
            where = f"tools[0].function_declarations[{at}].parameters"
            _refuse_schema(check_schema(schema, json_schema=False, at=where))
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        _refuse_schema(check_schema(wanted["json_schema"]["schema"], json_schema=False, top=False,
                                    at="generation_config.response_schema"))


def _refuse_schema(message: str | None) -> None:
    if message is not None:
        raise Refusal(message, "tools")


def openrouter(body: Body) -> None:
    model = model_of(body)
    grok(body)
    glm(body)
    if model.startswith("gemini"):
        gemini_schemas(body)
    reasoning = body.get("reasoning") or {}
    if "effort" in reasoning and "max_tokens" in reasoning:
        raise Refusal("Only one of \"reasoning.effort\" and \"reasoning.max_tokens\" may be specified")
    if reasoning.get("enabled") is False and re.search("gemini-3|gpt-5|^o[134]|grok-4|thinking|-r1|m2|k3", model):
        raise Refusal("Reasoning is mandatory for this endpoint and cannot be disabled.")
    if "max_tokens" in reasoning and body.get("max_tokens") is not None \
            and body["max_tokens"] <= reasoning["max_tokens"]:
        raise Refusal("max_tokens must be greater than reasoning.max_tokens")
    if model.startswith("claude"):
        _openrouter_claude(body, thinks=bool(reasoning) and reasoning.get("enabled") is not False)
    if model.startswith("gemini-3"):
        for at, message in assistants(body):
            sealed = data_of_reasoning(message, "reasoning.encrypted")
            if at > last_user(body) and message.get("tool_calls") \
                    and message["tool_calls"][0]["id"] not in [item.get("id") for item in sealed]:
                raise Refusal("Gemini models require OpenRouter reasoning details to be preserved in each request.")
    for _, message in assistants(body):
        if [item["index"] for item in message.get("reasoning_details", [])] != list(
                range(len(message.get("reasoning_details", [])))):
            raise Refusal("reasoning_details out of order")


def _openrouter_claude(body: Body, *, thinks: bool) -> None:
    for at, message in assistants(body):
        for call in message.get("tool_calls", []):
            if not re.fullmatch(r"[a-zA-Z0-9_-]+", call["id"]):
                raise Refusal(f"messages.{at}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        for item in message.get("reasoning_details", []):
            if not (item.get("signature") or item.get("data")):
                raise Refusal("messages.thinking.signature: Field required")
    last = next((message for _, message in reversed(list(assistants(body)))), {})
    if thinks and body["messages"][-1]["role"] == "tool" and not last.get("reasoning_details"):
        raise Refusal("Expected `thinking` or `redacted_thinking`, but found `tool_use`")


# ----------------------------------------------------------------------------------------------------- Google, others


def gemini_compat(body: Body) -> None:
    model = model_of(body)
    gemini_schemas(body)
    if not re.search("2.5-flash", model):
        efforts("minimal", "low", "medium", "high")(body)
    if re.search("gemini-[12](?!.5)", model):
        refuses("reasoning_effort")(body)
    if not model.startswith("gemini-3"):
        return
    for at, message in assistants(body):
        if at > last_user(body) and message.get("tool_calls") and "extra_content" not in message["tool_calls"][0]:
            raise Refusal("Function call is missing a thought_signature in functionCall parts.")


def alternating(body: Body) -> None:
    roles = [message["role"] for message in body["messages"]]
    while roles and roles[0] == "system":
        roles.pop(0)
    if any(first == second for first, second in pairwise(roles)):
        raise Refusal("After the (optional) system message(s), user or tool message(s) should alternate with assistant "
                      "message(s).")


def no_tools(body: Body) -> None:
    refuses("tools", "tool_choice", say="Tool calling is not supported for this model: {}")(body)
