"""The parameters of a Chat Completions request: limits, sampling, structured output, user, and the client's further
fields.

The functions map the client's request and the profile to the values to send; a value that cannot be sent is named.
Called by the request encoder. Reasoning is in `reasoning.py`.
"""

from __future__ import annotations

import msgspec

from extproc.apis.openai.wire_request import JsonObjectFormat, JsonSchemaFormat, NamedSchema, ProviderBody
from extproc.apis.shared.efforts import format_in_words, format_name, limit_at
from extproc.apis.shared.extras import name_extra
from extproc.apis.shared.users import legal_user
from extproc.conversation.model import OutputFormat, Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target
from extproc.schemas.gemini import rewrite_format_for_openai
from extproc.schemas.openai import clean_schema, fits_strict

_object: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])
_RESPONSES_FIELDS = frozenset({"prompt_cache_key", "service_tier", "verbosity"})
"""Fields that OpenAI's two APIs share. (`verbosity` is `text.verbosity` in the Responses API.)"""
_ANY_OBJECT: dict[str, object] = {"type": "object", "additionalProperties": True}


def with_parameters(request: Request, target: Target, dropped: Dropped) -> ProviderBody:
    """The body with limits, sampling and the user, and no messages yet. Raises BadRequest for several choices where the
    endpoint gives one."""
    profile = target.profile
    body = ProviderBody(model=target.model, messages=[], temperature=request.temperature, top_p=request.top_p,
                top_k=request.top_k, seed=request.seed, presence_penalty=request.presence_penalty,
                frequency_penalty=request.frequency_penalty)
    if request.max_output_tokens is not None:
        limit = limit_at(request.max_output_tokens, target, dropped)
        if profile.max_tokens_field == "max_tokens":
            body.max_tokens = limit
        else:
            body.max_completion_tokens = limit
    if request.temperature is not None and profile.max_temperature is not None \
            and request.temperature > profile.max_temperature and "temperature" not in profile.refuses:
        dropped.loss("temperature")
        body.temperature = profile.max_temperature
    if request.stop:
        body.stop = request.stop[: profile.max_stop]
        if len(request.stop) > profile.max_stop and "stop" not in profile.refuses:
            dropped.loss("stop")
    if request.logprobs:
        body.logprobs = True
        body.top_logprobs = request.top_logprobs
    if request.user:
        if profile.user:
            body.user = legal_user(request.user)
        else:
            dropped.hint("user")
    if request.choices > 1:
        if "n" in profile.refuses:
            raise BadRequest(f"n: the request asks for {request.choices} responses, but this provider gives one; send "
                             "n: 1, or send the request several times")
        body.n = request.choices
    return body


def remove_refused(body: ProviderBody, profile: Profile, dropped: Dropped) -> None:
    """Removes and names the fields that the endpoint refuses. Called last."""
    for name in sorted(profile.refuses):
        value = getattr(body, name, None)
        if value is not None and value != []:
            setattr(body, name, [] if name == "stop" else None)
            if name not in ("presence_penalty", "frequency_penalty") or value != 0:  # 0 has no effect
                dropped.loss(name)
    if profile.seed_field == "random_seed":
        body.random_seed, body.seed = body.seed, None


# ------------------------------------------------------------------------------------------------- the client's fields


def extra_fields(body: ProviderBody, request: Request, profile: Profile, dropped: Dropped) -> dict[str, object]:
    """The fields after all others: the client's own fields that this endpoint takes, and the fields that every request
    of the endpoint carries. No field is repeated; the conversation's value has precedence."""
    taken: dict[str, object] = {}
    for name, value in request.extra.items():
        if _takes(profile, name, request.api) and name not in profile.refuses:
            if getattr(body, name, None) in (None, [], {}, False):
                taken[name] = value
        elif getattr(body, name, None) in (None, [], {}, False):
            name_extra(name, value, dropped)
    own = {**profile.extra_body, **(profile.streamed_tools_body if body.stream and body.tools else {})}
    return {**taken, **{name: value for name, value in own.items() if name not in taken}}


def _takes(profile: Profile, name: str, api: str) -> bool:
    """True if the endpoint takes this field of a client of `api`. OpenAI's own Chat Completions takes three
    fields of the Responses API; other servers give `service_tier` other values."""
    listed = profile.extra_fields
    if api == "responses":
        return name in _RESPONSES_FIELDS and profile.faithful and listed is not None and name in listed
    return api == "openai" and (listed is None or name in listed)


def merge_template_kwargs(body: ProviderBody, request: Request, profile: Profile) -> None:
    """Merges the reasoning switch into the client's `chat_template_kwargs`."""
    raw = request.extra.get("chat_template_kwargs")
    if raw is None or not body.chat_template_kwargs or request.api != "openai":
        return
    try:
        body.chat_template_kwargs = {**_object.decode(raw), **body.chat_template_kwargs}
    except msgspec.ValidationError:
        return


def client_words(request: Request, profile: Profile, dropped: Dropped) -> dict[str, msgspec.Raw]:
    """The client's own reasoning fields, for an unknown endpoint and for one that is known to take the field. Empty
    elsewhere."""
    if request.api != "openai":
        return {}
    words = {name: value for name, value in request.thinking_words.items()
             if profile.client_reasoning_fields or name in (profile.extra_fields or ())}
    for name in words:
        dropped.remove(name)
    return words


# --------------------------------------------------------------------------------------------------- structured output


def format_fits(request: Request, profile: Profile, *, tools: bool) -> bool:
    """True if `response_format` can be sent with the rest of the request. `tools`: tools are sent with it."""
    if _format_taken(profile) == "none":
        return False
    return (profile.format_with_tools or not tools) and (profile.format_in_stream or not request.stream)


def response_format(wanted: OutputFormat, profile: Profile) -> JsonObjectFormat | JsonSchemaFormat:
    """The strongest form that the endpoint takes; `format_note` says the rest in words."""
    if format_kind(wanted, profile) == "json_object":
        return JsonObjectFormat()
    schema = _ANY_OBJECT
    if wanted.schema is not None:
        rewrite = rewrite_format_for_openai if profile.schemas == "gemini" else clean_schema
        schema = rewrite(wanted.schema)
    strict = True if wanted.strict and fits_strict(schema) else None
    return JsonSchemaFormat(NamedSchema(name=format_name(wanted), schema=schema, strict=strict))


def format_kind(wanted: OutputFormat, profile: Profile) -> str:
    """The type of the `response_format` to send: json_object or json_schema."""
    taken = _format_taken(profile)
    return "json_object" if taken == "json_object" or (wanted.schema is None and taken == "json_schema") else (
        "json_schema")


def format_note(wanted: OutputFormat, sent: JsonObjectFormat | JsonSchemaFormat | None) -> str | None:
    """The instruction for the system text where `response_format` does not express the whole request. A request for a
    JSON object must contain the word JSON in its messages, so it is included in any case."""
    return format_in_words(wanted, schema_sent=isinstance(sent, JsonSchemaFormat))


def _format_taken(profile: Profile) -> str:
    return "none" if "response_format" in profile.refuses else profile.response_format
