"""The record of what is peculiar about an endpoint or a model family.

A profile is data: one record each, every field documented with its default, each quirk with its source at the place
where it is set. Code asks a profile, it never asks "is this provider X?". A `Provider` groups the profiles of one
endpoint: how it is recognised, its plain profile and its model families.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

import msgspec

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint's peculiarities. The defaults are those of a generic OpenAI-compatible server."""

    name: str
    faithful: bool = False
    """Its requests may be an OpenAI client's own bytes, and its answers need no mending: between an OpenAI client and
    this endpoint bytes pass. Only for endpoints that keep to the format."""

    # ------------------------------------------------------------------------------------------------- parameters
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The field that carries the output limit."""
    max_output_tokens: int | None = None
    """The most that the output limit may say; higher ones are clamped and named. None: not known, all are sent."""
    refuses: frozenset[str] = frozenset({"top_k"})
    """Request fields (temperature, top_p, top_k, stop, response_format...) that are answered with an error or
    silently misread: removed and named. `top_k` is not in the OpenAI format, so only a profile that leaves it out
    of this set gets it."""
    max_stop: int = 4
    """Most stop sequences of a request; the OpenAI format allows four. Further ones are dropped and named."""
    max_temperature: float | None = None
    """The highest temperature that is taken; higher ones are clamped and named. None: the format's own limit, 2."""
    seed_field: Literal["seed", "random_seed"] = "seed"
    """The field that carries the seed."""
    extra_fields: frozenset[str] | None = None
    """The fields that are taken of those an OpenAI client sent and the conversation has no place for (`logit_bias`,
    `service_tier`, `prediction`...). Others are named. None: all of them, as servers that ignore what they do not know
    may still know an extension."""
    user: bool = True
    """Whether the field `user` is sent (an opaque id, hashed when longer than 64 characters or oddly spelt)."""
    stream_usage: bool = True
    """Whether `stream_options: {include_usage: true}` is sent with a stream; without it most servers count nothing."""
    response_format: Literal["json_schema", "json_schema_only", "json_object", "none"] = "json_schema"
    """The strongest form of structured output that is taken. Below json_schema the schema goes into the system text.
    "json_schema_only": json_object is refused, a wish for any object becomes a schema of one."""
    format_with_tools: bool = True
    """Whether `response_format` may stand beside tools; if not, the format is told in the system text."""
    format_in_stream: bool = True
    """Whether `response_format` may stand in a request for a stream; if not, it is told in the system text."""
    extra_body: dict[str, object] = {}
    """Fields that every request of this endpoint carries, after all others; what a client of the same API says in one
    of them counts."""
    streamed_tools_body: dict[str, object] = {}
    """The same for requests for a stream that offer tools."""
    client_words: bool = False
    """Whether what a client of the same API says of reasoning goes on as it says it, opaque items of the history
    included: for endpoints that nobody knows, which the client may know."""
    deployment_api_version: str | None = None
    """The `api-version` of an endpoint with one path per deployment (`/openai/deployments/NAME/...`), which stands
    in for one that the backend's URL does not name. None: the path is the same for all models."""

    # -------------------------------------------------------------------------------------------------- reasoning
    reasoning: Literal["effort", "object", "none"] = "effort"
    """How the client's wish for thinking is sent: as `reasoning_effort`, as the object `reasoning` of OpenRouter, or
    not at all (then it is named, unless a toggle says it)."""
    efforts: tuple[Effort, ...] = ("low", "medium", "high")
    """The efforts that are understood; another wish becomes the nearest one below, else above. "none" switches
    thinking off and is sent only where it stands here, else a disabled thinking sends nothing."""
    effort_map: dict[str, Effort] = {}
    """Efforts that the endpoint itself takes for others, where the nearest is not what it means."""
    reasoning_budget: bool = False
    """Whether the object `reasoning` takes a budget of tokens, which is then sent instead of an effort."""
    thinking_toggle: Literal["thinking", "enable_thinking", "reasoning", "template:thinking",
                             "template:enable_thinking"] | None = None
    """The switch of reasoning: the object `thinking {type}`, the field `enable_thinking`, the object `reasoning
    {enabled}`, or one of two variables of the chat template. Sent when the client says on or off."""
    preserved_thinking: bool = False
    """Whether the object `thinking` takes `clear_thinking`: with false the reasoning of all earlier turns stays before
    the model, and goes back on all turns, whatever `reasoning_history` says."""
    thinking_on: Literal["enabled", "adaptive"] = "enabled"
    """The type that switches on, where the toggle is the object `thinking`."""
    thinking_budget: bool = False
    """Whether the field `thinking_budget`, in tokens, stands beside the toggle."""
    thinks: Literal["when_asked", "by_default", "always", "unknown"] = "when_asked"
    """When the model reasons. "always": it cannot be switched off. "unknown": the endpoint serves models of all kinds;
    what is not sent there of a wish is named."""
    choice_while_thinking: bool = True
    """Whether a forced tool choice is taken while the model reasons. If not, reasoning is switched off for it; where
    that is impossible the choice becomes auto, and the system text asks for the call."""
    format_while_thinking: bool = True
    """The same for `response_format`."""
    thinking_needs_stream: bool = False
    """Whether reasoning is refused in requests for a whole answer: then a stream is asked for and put together."""
    reasoning_history: Literal["drop", "with_tool_calls", "always"] = "drop"
    """What becomes of the thinking of earlier assistant turns: removed, sent back on turns that call tools, or on
    all turns. Servers that do not know the field refuse or ignore it, hence the default."""
    reasoning_field: Literal["reasoning_content", "reasoning", "reasoning_details", "think_tags",
                             "thinking_parts"] = "reasoning_content"
    """What carries it: a text field of the message; the items of OpenRouter; `<think>` tags before the text; or parts
    of type `thinking` before the text (Mistral)."""
    reasoning_placeholder: str | None = None
    """Sent in a text field on a turn with tool calls whose thinking was not kept, where the field must be present.
    None: the field is left out. Used only when `reasoning_history` is not "drop"."""
    details_format: str = "unknown"
    """The `format` of items of `reasoning_details`: whose signatures they may carry. Text without a signature goes
    back only where the format is "unknown"."""
    signed_thinking: bool = False
    """Whether reasoning that is on demands the signed reasoning of the tool calls that are being answered; where it
    was not kept, the request leaves reasoning off."""
    call_signatures: Literal["extra_content", "details"] = "extra_content"
    """Where the signature of a tool call stands: in the call's `extra_content.google.thought_signature`, or as an
    encrypted item of `reasoning_details` with the call's id. It is sent only to the endpoint that issued it."""
    call_signature_placeholder: str | None = None
    """Stands in for the signature of a turn's first call where the model demands one and none was kept."""

    # --------------------------------------------------------------------------------------------------- messages
    system_anywhere: bool = True
    """Whether `system` messages may stand in the middle. If not, they become user text there. (Those before the first
    turn join the system text at the head either way.)"""
    empty_content: Literal["null", "empty"] = "null"
    """`content` of an assistant message that only calls tools: null (the OpenAI form) or ""."""
    bridge_after_tools: str | None = None
    """Text of an assistant message put between tool messages and a user message, for servers that refuse the order
    tool, user. None: nothing is put there."""
    prefill: Literal["plain", "prefix", "partial"] = "plain"
    """How a last assistant message that is to be continued is marked: not at all, `prefix: true` or `partial: true`."""
    images: bool = True
    """Whether image parts are taken. If not, a note names each image in the text."""
    image_urls: bool = True
    """Whether an image part may hold an http(s) URL besides a data URL."""
    documents: bool = True
    """Whether PDFs are taken."""
    document_part: Literal["file", "document_url", "file_url"] = "file"
    """The part that carries a PDF: `file` with a data URL; `document_url` of Mistral; or `file_url` of Perplexity,
    which takes bare base64."""
    document_urls: bool = False
    """Whether that part may hold an http(s) URL besides data."""
    audio: Literal["none", "object", "text"] = "none"
    """The form of `input_audio`: not taken; an object of data and format; or, at Mistral, base64 or a URL alone."""
    videos: bool = False
    """Whether `video_url` parts are taken."""
    cache_marks: bool = False
    """Whether parts take `cache_control`, at most four in a request. If not, marks are named as hints."""
    tool_cache_marks: bool = False
    """Whether tools take it beside their function."""
    cache_ttl: bool = False
    """Whether `cache_control` takes a `ttl`. If not, marks live as long as the provider says: "1h" is named as a
    hint."""

    # ------------------------------------------------------------------------------------------------------ tools
    schemas: Literal["json_schema", "gemini"] = "json_schema"
    """Which JSON Schema is taken, of tools and of structured output. "gemini": the subset of OpenAPI that Gemini takes,
    without `$ref`, `const`, lists of types and most formats."""
    native_tools: bool = True
    """Whether tools are taken at all. If not, they go into the prompt, unless the configuration says how."""
    functions: Literal["taken", "without_reasoning", "refused"] = "taken"
    """Whether a request may offer tools: always, only with an explicit `reasoning_effort: none`, or never. Where it is
    "refused", a request with tools is a 400 that gives `functions_advice`."""
    functions_advice: str = ""
    """What to do instead: which models of the endpoint take tools. One clause, for people."""
    max_tools: int | None = None
    """Most tools of a request; more are refused before the provider does. None: no limit of its own."""
    tool_name_max: int = 64
    """Longest tool name; longer ones are mapped and restored."""
    eager_tools: bool = False
    """Whether a tool takes `eager_input_streaming` beside its function."""
    server_tools: str | None = None
    """A glob on the types of tools that the endpoint runs itself and takes in a request of the same API. None: there
    are none."""
    strict_tools: bool = False
    """Whether `strict` in a tool definition is taken. Sent only for schemas that meet its demands."""
    custom_tools: bool = False
    """Whether tools of type `custom`, which take free text, are known. If not, they are functions with one string."""
    allowed_tools: bool = False
    """Whether `tool_choice` knows `allowed_tools`. If not, only the allowed tools are offered."""
    tool_choices: frozenset[str] = frozenset({"auto", "required", "tool", "none"})
    """The modes of `tool_choice` that are taken. A missing "tool" becomes "required" with that one tool offered, a
    missing "required" becomes "auto" and a request in the system text, a missing "auto" is left out; for a missing
    "none" the tools themselves are left out."""
    required_word: Literal["required", "any"] = "required"
    """The word for "required"."""
    parallel_tool_calls: bool = True
    """Whether the field `parallel_tool_calls` is taken. If not, the system text asks for one call at a time."""
    never_parallel: bool = False
    """Whether a turn can hold one call only: the server refuses a history with more, or a request that allows more.
    Then `parallel_tool_calls: false` is always sent (where the field is taken), and a turn of the history with several
    calls becomes several turns."""
    tool_call_id_pattern: str = r"[\x21-\x7e]+"
    """What a whole tool call id must match to pass unchanged."""
    tool_call_id_max: int = 40
    """Longest tool call id. The OpenAI API refuses more than 40 characters."""
    tool_call_id_form: Literal["hash", "nine", "functions"] = "hash"
    """What replaces an id that may not pass: `call_` and 24 hex digits; nine alphanumerics; or, for every call,
    `functions.NAME:N` with N counted over the conversation."""

    # ------------------------------------------------------------------------------------------------------ answers
    splits_reasoning: bool = False
    """Whether the endpoint takes reasoning out of the text, or leaves both tags in it: then no text begins inside of
    reasoning, whatever the model's own prompt opens. Where it is not known, the model's family decides."""
    reasoning_outside: bool = False
    """Whether `completion_tokens` leaves out the tokens of reasoning, which are then added."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint: the `provider:` name of the configuration, the hosts that betray it, and its profiles."""

    name: str
    aliases: tuple[str, ...] = ()
    """Other names that mean it in a configuration."""
    hosts: tuple[str, ...] = ()
    """Host names; subdomains count as well."""
    aggregator: bool = False
    """It passes requests on to other hosts, those of the models' makers among them: their guards hold
    (`profiles.guards`)."""
    own_templates: bool = False
    """Its servers render the chat template that comes with a model, whose limits are then those of the endpoint
    (`ModelFamily.never_parallel`)."""
    base: Profile
    families: tuple[tuple[str, Profile], ...] = ()
    """Globs on the lower-case model id, without a leading "vendor/", with their profiles; the first match wins."""
    output_limits: tuple[tuple[str, int], ...] = ()
    """Globs as well, with the most output tokens of these models, where they are known: `max_output_tokens` of their
    profile. They cut across families."""

    def profile(self, model: str) -> Profile:
        """The profile of this model id at this endpoint. A fine-tuned model (`ft:MODEL:...`) has that of its model."""
        plain = model.lower().rpartition("/")[2].removeprefix("ft:")
        found = next((profile for pattern, profile in self.families if fnmatchcase(plain, pattern)), self.base)
        most = next((most for pattern, most in self.output_limits if fnmatchcase(plain, pattern)), None)
        return found if most is None else msgspec.structs.replace(found, max_output_tokens=most)

    def serves(self, host: str) -> bool:
        """Whether this host name belongs to the endpoint."""
        return any(host == own or host.endswith("." + own) for own in self.hosts)
