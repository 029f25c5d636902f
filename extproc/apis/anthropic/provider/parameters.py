"""The parameters of a Messages request: sampling, stop sequences, structured output, the user, and fields that the API
does not have.

The functions map the client's request and the records of the model and the endpoint to the values to send; a value that
cannot be sent is named. Called by the request encoder.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from extproc.apis.anthropic.provider.thinking import ThinkingPlan
from extproc.apis.anthropic.wire import Metadata, OutputConfig, ProviderBody, SchemaFormat
from extproc.apis.shared.efforts import format_in_words
from extproc.apis.shared.extras import name_extras
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.anthropic import AnthropicEndpoint, AnthropicModel
from extproc.schemas.anthropic import output_schema

_PLAIN_USER = re.compile(r"[a-zA-Z0-9_-]+")
_USER_MAX = 256
"""The longest `metadata.user_id`, in characters."""


def set_parameters(body: ProviderBody, request: Request, plan: ThinkingPlan, model: AnthropicModel,
                   endpoint: AnthropicEndpoint, dropped: Dropped) -> None:
    """Sets all of `body` but the model, max_tokens, the thinking field, the messages and the tools. Raises BadRequest
    for more than one choice."""
    if request.choices > 1:
        raise BadRequest("n: this model gives one response per request; leave n out, or send the request several times")
    _set_sampling(body, request, plan, model, endpoint, dropped)
    body.stop_sequences = [text for text in request.stop if text.strip()]
    if len(body.stop_sequences) < len(request.stop):
        dropped.loss("stop")  # the API refuses blank sequences
    _set_user(body, request, endpoint, dropped)
    _name_foreign(request, dropped)


def _set_sampling(body: ProviderBody, request: Request, plan: ThinkingPlan, model: AnthropicModel,
                  endpoint: AnthropicEndpoint, dropped: Dropped) -> None:
    """While Claude thinks all three are fixed. A default value is no loss."""
    given = [name for name in ("temperature", "top_p", "top_k") if getattr(request, name) is not None]
    refused = given if plan.on and endpoint.signed else model.refused_sampling(given)
    if request.temperature is not None and "temperature" not in refused:
        body.temperature = min(max(request.temperature, 0.0), endpoint.max_temperature)
        if body.temperature != request.temperature:
            dropped.loss("temperature")
    if request.top_k is not None and request.top_k > 0 and "top_k" not in refused:
        body.top_k = request.top_k
    if request.top_p is not None and "top_p" not in refused:
        body.top_p = min(max(request.top_p, 0.0), 1.0)
    for name in given:
        if name in refused and (name == "top_k" or getattr(request, name) != 1):
            dropped.loss(name)


def _set_user(body: ProviderBody, request: Request, endpoint: AnthropicEndpoint, dropped: Dropped) -> None:
    if not request.user:
        return
    if not endpoint.user:
        dropped.hint("user")
    else:
        body.metadata = Metadata(legal_user(request.user, endpoint))


def legal_user(user: str, endpoint: AnthropicEndpoint) -> str:
    """The user's id in the endpoint's form: unchanged, or hashed."""
    if len(user) <= _USER_MAX and (not endpoint.plain_user_ids or _PLAIN_USER.fullmatch(user)):
        return user
    return blake2b(user.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _name_foreign(request: Request, dropped: Dropped) -> None:
    """Names the fields that the API does not have."""
    for name, value in (("seed", request.seed), ("presence_penalty", request.presence_penalty or None),
                        ("frequency_penalty", request.frequency_penalty or None),
                        ("logprobs", request.logprobs or None)):
        if value is not None:
            dropped.loss(name)
    name_extras(request, dropped)


def set_output(body: ProviderBody, request: Request, plan: ThinkingPlan, model: AnthropicModel, *,
               prefill: bool) -> str | None:
    """Sets `output_config`. Returns an instruction for the system text where the format cannot be sent: the model takes
    none, the schema cannot be expressed, or the response is already begun (`prefill`)."""
    config = OutputConfig(effort=plan.effort)
    note = None
    wanted = request.output_format
    if wanted is not None:
        taken = wanted.schema is not None and model.output_format and not prefill
        schema = output_schema(wanted.schema) if taken and wanted.schema is not None else None
        if schema is not None:
            config.format = SchemaFormat(schema)
        note = format_in_words(wanted, schema_sent=schema is not None)
    if config != OutputConfig():
        body.output_config = config
    return note
