"""The parameters of a Responses request: limits, sampling, reasoning, structured output, user, and the client's further
fields.

The functions map the client's request and the profile to the values to send; a value that cannot be sent is named.
Called by the request encoder.
"""

from __future__ import annotations

import msgspec

from extproc.apis.responses.wire_request import (
    JsonObjectFormat,
    JsonSchemaFormat,
    ProviderBody,
    ReasoningField,
    TextField,
)
from extproc.apis.shared.efforts import format_in_words, format_name, is_asked, limit_at, reasoning_effort
from extproc.apis.shared.extras import name_extra
from extproc.apis.shared.users import hashed, legal_user, without_session
from extproc.conversation.model import OutputFormat, Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target
from extproc.schemas.openai import clean_schema, fits_strict

LEAST_OUTPUT = 16
"""The smallest `max_output_tokens`: less is a 400."""
ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""The value of `include` that makes a stateless conversation with reasoning possible. A model without reasoning refuses
it ("Encrypted content is not supported with this model")."""

FIELDS = frozenset({"max_tool_calls", "metadata", "moderation", "prompt_cache_key", "prompt_cache_options",
                    "prompt_cache_retention", "safety_identifier", "service_tier", "top_logprobs", "truncation"})
"""Fields of a client's request without a place in the conversation that the API takes."""

_string: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)


def with_parameters(request: Request, target: Target, dropped: Dropped) -> ProviderBody:
    """The body without tools and items. Raises BadRequest for several choices."""
    if request.choices > 1:
        raise BadRequest(f"n: {request.choices} answers are wanted, the Responses API gives one to a request; send "
                         "n: 1, or the request several times (or configure `endpoint: chat` for this model)")
    profile = target.profile
    body = ProviderBody(model=target.model, stream=request.stream, store=False, input=[],
                        temperature=request.temperature, top_p=request.top_p)
    limit = limit_at(request.max_output_tokens, target, dropped)
    body.max_output_tokens = None if limit is None else max(LEAST_OUTPUT, limit)
    if profile.reasoning != "none":
        body.include = [ENCRYPTED_REASONING]
        body.reasoning = _reasoning(request, target, dropped)
    elif is_asked(request.thinking):
        dropped.loss("thinking")
    _name_refused(body, request, profile, dropped)
    _set_user(body, request, profile, dropped)
    return body


def _name_refused(body: ProviderBody, request: Request, profile: Profile, dropped: Dropped) -> None:
    """Names the parameters that the API or the endpoint does not take, and removes them."""
    for name in ("temperature", "top_p"):
        if getattr(body, name) is not None and name in profile.refuses:
            setattr(body, name, None)
            dropped.loss(name)
    for name in ("top_k", "seed", "stop", "presence_penalty", "frequency_penalty", "logprobs"):
        value = getattr(request, name)
        if value not in (None, [], False, 0):  # a penalty of 0 has no effect
            dropped.loss(name)


def _reasoning(request: Request, target: Target, dropped: Dropped) -> ReasoningField | None:
    """The summary is requested if the client asks for reasoning, because it is what the client shows of it."""
    thinking, profile = request.thinking, target.profile
    if thinking is None:
        reads = request.reads_reasoning and target.reasoning_summaries and profile.thinks in ("by_default", "always")
        return ReasoningField(summary="auto") if reads else None
    effort = reasoning_effort(thinking, profile, dropped)
    asked = is_asked(thinking)
    if effort is None and not asked:
        if profile.thinks != "when_asked":
            dropped.hint("thinking")  # reasoning cannot be switched off
        return None
    summary = "auto" if asked and target.reasoning_summaries else None
    return ReasoningField(effort, summary) if effort or summary else None


# ---------------------------------------------------------------------------------------------------------------- user


def _set_user(body: ProviderBody, request: Request, profile: Profile, dropped: Dropped) -> None:
    """The user as a hash that is the same in all sessions, and the session as the key of the prompt cache, which sends
    the requests of a conversation to the same machines."""
    user = request.user
    if not user:
        return
    known = profile.extra_fields or frozenset()
    if "prompt_cache_key" in known:
        body.prompt_cache_key = hashed(user)
    if "safety_identifier" in known:
        body.safety_identifier = hashed(without_session(user))
    elif profile.user:
        body.user = legal_user(user)
    else:
        dropped.hint("user")


# ------------------------------------------------------------------------------------------------- the client's fields


def extra_fields(body: ProviderBody, request: Request, profile: Profile, dropped: Dropped) -> dict[str, msgspec.Raw]:
    """The client's own fields that the endpoint takes, of either of OpenAI's APIs. The client's value has precedence
    over a derived one. All others are named."""
    taken: dict[str, msgspec.Raw] = {}
    for name, value in request.extra.items():
        known = name in FIELDS and (profile.extra_fields is None or name in profile.extra_fields
                                    or request.api == "responses")
        if request.api in ("openai", "responses") and name == "verbosity" and (
                profile.extra_fields is None or name in profile.extra_fields):
            _set_verbosity(body, value)
        elif request.api in ("openai", "responses") and known:
            if name in ("prompt_cache_key", "safety_identifier"):
                setattr(body, name, None)
            taken[name] = value
        elif name != "store":
            name_extra(name, value, dropped)
    return taken


def _set_verbosity(body: ProviderBody, value: msgspec.Raw) -> None:
    try:
        verbosity = _string.decode(value)
    except msgspec.ValidationError:
        return
    body.text = TextField(body.text.format if body.text is not None else None, verbosity)


# --------------------------------------------------------------------------------------------------- structured output


def set_format(body: ProviderBody, wanted: OutputFormat, profile: Profile) -> str | None:
    """Sets `text.format`. Returns the instruction for the system text where the field does not express all of it."""
    if "response_format" in profile.refuses or profile.response_format == "none":
        return format_in_words(wanted, schema_sent=False)
    if wanted.schema is None or profile.response_format == "json_object":
        body.text = TextField(JsonObjectFormat())
        return format_in_words(wanted, schema_sent=False)
    schema = clean_schema(wanted.schema)
    body.text = TextField(JsonSchemaFormat(format_name(wanted), schema, bool(wanted.strict and fits_strict(schema))))
    return None
