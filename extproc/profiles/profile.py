"""The record of an endpoint's or a model family's deviations from the OpenAI format.

A profile is data: every field is documented with its default, every quirk with its source where it is set. Code reads a
field of the profile and never asks "is this provider X?". A `Provider` groups the profiles of one endpoint: how it is
recognised, its base profile and its model families.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

import msgspec

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How one endpoint deviates from the format. The defaults are those of a generic OpenAI-compatible server."""

    name: str
    faithful: bool = False
    """True if the endpoint keeps to the format: requests of an OpenAI client and responses pass without translation."""

    # ------------------------------------------------------------------------------------------------- parameters
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The field that carries the output limit."""
    max_output_tokens: int | None = None
    """The highest output limit; higher ones are clamped and named. None: unknown, all are sent."""
    refuses: frozenset[str] = frozenset({"top_k"})
    """Request fields (temperature, top_p, top_k, stop, response_format...) that the endpoint refuses or misreads: they
    are removed and named. `top_k` is not in the OpenAI format, so it is sent only if a profile omits it here."""
    max_stop: int = 4
    """Maximum number of stop sequences; the OpenAI format allows four. Further ones are dropped and named."""
    max_temperature: float | None = None
    """The highest temperature; higher ones are clamped and named. None: the format's own limit, 2."""
    seed_field: Literal["seed", "random_seed"] = "seed"
    """The field that carries the seed."""
    extra_fields: frozenset[str] | None = None
    """Fields of an OpenAI client's request that the conversation model does not have (`logit_bias`, `service_tier`,
    `prediction`...) and that the endpoint takes. Others are named. None: all of them, since a server that ignores
    unknown fields may know an extension."""
    user: bool = True
    """True if the field `user` is sent: an opaque id, hashed if it is longer than 64 characters or has other characters
    than letters, digits, `_` and `-`."""
    stream_usage: bool = True
    """True if `stream_options: {include_usage: true}` is sent with a stream; without it most servers send no usage."""
    response_format: Literal["json_schema", "json_schema_only", "json_object", "none"] = "json_schema"
    """The strongest form of structured output. Below json_schema the schema goes into the system text.
    "json_schema_only": json_object is refused, so a request for any object sends a schema of any object."""
    format_with_tools: bool = True
    """True if `response_format` may stand beside tools; otherwise the system text describes the format."""
    format_in_stream: bool = True
    """True if `response_format` may stand in a request for a stream; otherwise the system text describes the format."""
    extra_body: dict[str, object] = {}
    """Fields of every request to this endpoint, after all others. A value from a client of the same API takes
    precedence."""
    streamed_tools_body: dict[str, object] = {}
    """Like `extra_body`, for requests for a stream with tools."""
    client_reasoning_fields: bool = False
    """True if the reasoning fields of a client of the same API are forwarded unchanged, opaque items of the history
    included: for unknown endpoints, which the client may know."""
    deployment_api_version: str | None = None
    """The default `api-version` of an endpoint with one path per deployment (`/openai/deployments/NAME/...`), for
    backend URLs without one. None: the path is the same for all models."""

    # -------------------------------------------------------------------------------------------------- reasoning
    reasoning: Literal["effort", "object", "none"] = "effort"
    """How a request for thinking is sent: as `reasoning_effort`, as the object `reasoning` of OpenRouter, or not at all
    (then it is named, unless a toggle carries it)."""
    efforts: tuple[Effort, ...] = ("low", "medium", "high")
    """The efforts that the endpoint takes. Another effort becomes the nearest one below, else above. "none" switches
    thinking off; if it is missing here, disabled thinking sends nothing."""
    effort_map: dict[str, Effort] = {}
    """Efforts that the endpoint itself maps to others, if that is not the nearest one."""
    reasoning_budget: bool = False
    """True if the object `reasoning` takes a budget in tokens, which is then sent instead of an effort."""
    thinking_toggle: Literal["thinking", "enable_thinking", "reasoning", "template:thinking",
                             "template:enable_thinking"] | None = None
    """The switch for reasoning: the object `thinking {type}`, the field `enable_thinking`, the object `reasoning
    {enabled}`, or one of two variables of the chat template. Sent if the client switches reasoning on or off."""
    preserved_thinking: bool = False
    """True if the object `thinking` takes `clear_thinking`. With false the model sees the reasoning of all earlier
    turns, so all of it is sent back, whatever `reasoning_history` says."""
    thinking_on: Literal["enabled", "adaptive"] = "enabled"
    """The type that switches reasoning on, if the toggle is the object `thinking`."""
    thinking_budget: bool = False
    """True if the endpoint takes the field `thinking_budget`, in tokens, beside the toggle."""
    thinks: Literal["when_asked", "by_default", "always", "unknown"] = "when_asked"
    """When the model reasons. "always": reasoning cannot be switched off. "unknown": the endpoint serves models of all
    kinds; the part of a request for thinking that is not sent is named."""
    choice_while_thinking: bool = True
    """True if a forced tool choice is allowed while the model reasons. Otherwise reasoning is switched off for it; if
    that is impossible, the choice becomes auto and the system text asks for the call."""
    format_while_thinking: bool = True
    """Like `choice_while_thinking`, for `response_format`."""
    thinking_needs_stream: bool = False
    """True if reasoning is refused in requests for a whole response: then the gateway requests a stream and
    assembles it."""
    reasoning_history: Literal["drop", "with_tool_calls", "always"] = "drop"
    """The thinking of earlier assistant turns: removed, sent back on turns with tool calls, or on all turns. Servers
    that do not know the field refuse or ignore it, hence the default."""
    reasoning_field: Literal["reasoning_content", "reasoning", "reasoning_details", "think_tags",
                             "thinking_parts"] = "reasoning_content"
    """How it is sent back: in a text field of the message, as items of OpenRouter, in `<think>` tags before the text,
    or as parts of type `thinking` before the text (Mistral)."""
    reasoning_placeholder: str | None = None
    """The value of a text field on a turn with tool calls whose thinking is lost, if the field must be present. None:
    the field is left out. Used only if `reasoning_history` is not "drop"."""
    details_format: str = "unknown"
    """The `format` of items of `reasoning_details`, which says whose signatures they carry. Text without a signature
    is sent back only if the format is "unknown"."""
    signed_thinking: bool = False
    """True if active reasoning requires the signed reasoning of the tool calls that the request answers; if that is
    lost, the request switches reasoning off."""
    call_signatures: Literal["extra_content", "details"] = "extra_content"
    """The place of a tool call's signature: the call's `extra_content.google.thought_signature`, or an encrypted item
    of `reasoning_details` with the call's id. It is sent only to the endpoint that issued it."""
    call_signature_placeholder: str | None = None
    """Replaces a lost signature of a turn's first call, if the model requires one."""

    # --------------------------------------------------------------------------------------------------- messages
    system_anywhere: bool = True
    """True if `system` messages may stand inside the conversation. Otherwise they become user text there. (Those before
    the first turn join the system text in either case.)"""
    empty_content: Literal["null", "empty"] = "null"
    """`content` of an assistant message with tool calls only: null (the OpenAI form) or ""."""
    bridge_after_tools: str | None = None
    """Text of an assistant message that is inserted between a tool message and a user message, for servers that refuse
    this order. None: nothing is inserted."""
    message_phase: bool = False
    """Responses API: True if an assistant message of the history takes its `phase`, commentary or final_answer."""
    prefill: Literal["plain", "prefix", "partial"] = "plain"
    """The mark of a last assistant message that the model continues: none, `prefix: true` or `partial: true`."""
    images: bool = True
    """True if image parts are taken. Otherwise a note names each image in the text."""
    image_urls: bool = True
    """True if an image part may hold an http(s) URL besides a data URL."""
    documents: bool = True
    """True if PDFs are taken."""
    document_part: Literal["file", "document_url", "file_url"] = "file"
    """The part that carries a PDF: `file` with a data URL, `document_url` (Mistral), or `file_url` with bare base64
    (Perplexity)."""
    document_urls: bool = False
    """True if that part may hold an http(s) URL besides data."""
    audio: Literal["none", "object", "text"] = "none"
    """The form of `input_audio`: not taken, an object of data and format, or (Mistral) base64 or a URL alone."""
    videos: bool = False
    """True if `video_url` parts are taken."""
    cache_marks: bool = False
    """True if parts take `cache_control`, at most four in a request. Otherwise marks are named as ignored."""
    tool_cache_marks: bool = False
    """True if tools take `cache_control` beside their function."""
    cache_ttl: bool = False
    """True if `cache_control` takes a `ttl`. Otherwise the provider decides, and "1h" is named as ignored."""

    # ------------------------------------------------------------------------------------------------------ tools
    schemas: Literal["json_schema", "gemini"] = "json_schema"
    """The form of schemas, of tools and of structured output. "gemini": the subset of OpenAPI that Gemini takes,
    without `$ref`, `const`, lists of types and most formats."""
    native_tools: bool = True
    """True if tools are taken at all. Otherwise they go into the prompt, unless the configuration sets another
    style."""
    functions: Literal["taken", "without_reasoning", "refused"] = "taken"
    """When a Chat Completions request may offer tools: always, only with an explicit `reasoning_effort: none`, or
    never. "refused": a request with tools is a 400 with `functions_advice`. A model that is not "taken" is served by
    the Responses API, unless the configuration has `endpoint: chat` (`profiles.responses`)."""
    functions_advice: str = ""
    """Advice for the user: the models of the endpoint that take tools. One clause."""
    max_tools: int | None = None
    """Maximum number of tools; the gateway refuses more. None: no limit of the endpoint's own."""
    tool_name_max: int = 64
    """Maximum length of a tool name; longer ones are mapped and restored."""
    eager_tools: bool = False
    """True if a tool takes `eager_input_streaming` beside its function."""
    server_tools: str | None = None
    """A glob on the types of tools that the endpoint runs itself and takes in a request of the same API. None: it has
    no such tools."""
    strict_tools: bool = False
    """True if `strict` is taken in a tool definition. It is sent only for schemas that meet its demands."""
    custom_tools: bool = False
    """True if tools of type `custom`, which take free text, are known. Otherwise they become functions with one
    string."""
    allowed_tools: bool = False
    """True if `tool_choice` knows `allowed_tools`. Otherwise only the allowed tools are offered."""
    tool_choices: frozenset[str] = frozenset({"auto", "required", "tool", "none"})
    """The modes of `tool_choice` that are taken. A missing "tool" becomes "required" with only that tool offered, a
    missing "required" becomes "auto" with an instruction in the system text, a missing "auto" is omitted, and for a
    missing "none" the tools are omitted."""
    required_word: Literal["required", "any"] = "required"
    """The value that means "required"."""
    parallel_tool_calls: bool = True
    """True if the field `parallel_tool_calls` is taken. Otherwise the system text asks for one call at a time."""
    never_parallel: bool = False
    """True if a turn may hold only one call: the server refuses a history with more, or a request that allows more.
    Then `parallel_tool_calls: false` is always sent (if the field is taken), and a past turn with several calls becomes
    several turns."""
    tool_call_id_pattern: str = r"[\x21-\x7e]+"
    """A tool call id passes unchanged if all of it matches this pattern."""
    tool_call_id_max: int = 40
    """Maximum length of a tool call id. The OpenAI API refuses more than 40 characters."""
    tool_call_id_form: Literal["hash", "nine", "functions"] = "hash"
    """The replacement of an id that may not pass: `call_` and 24 hex digits; nine alphanumerics; or, for every call,
    `functions.NAME:N` with N counted over the conversation."""

    # ---------------------------------------------------------------------------------------------------- responses
    splits_reasoning: bool = False
    """True if the endpoint removes reasoning from the text, or leaves both tags in it: then no text begins inside
    reasoning, whatever the model's own prompt opens. False: unknown, the model's family decides."""
    reasoning_uncounted: bool = False
    """True if `completion_tokens` excludes the tokens of reasoning, which are then added."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint: its name for `provider:` in the configuration, its hosts, and its profiles."""

    name: str
    aliases: tuple[str, ...] = ()
    """Other names for it in a configuration."""
    hosts: tuple[str, ...] = ()
    """Host names; subdomains match as well."""
    aggregator: bool = False
    """True if it forwards requests to other hosts, those of the models' makers among them: the makers' rules apply
    (`profiles.maker_rules`)."""
    renders_templates: bool = False
    """True if its servers render the chat template of a model, whose limits then apply to the endpoint
    (`ModelFamily.never_parallel`)."""
    base: Profile
    families: tuple[tuple[str, Profile], ...] = ()
    """Globs on the lower-case model id, without a leading "vendor/", with their profiles; the first match wins."""
    output_limits: tuple[tuple[str, int], ...] = ()
    """Globs on model ids with the maximum number of output tokens, if known: it becomes `max_output_tokens` of the
    profile. Independent of `families`."""

    def find_profile(self, model: str) -> Profile:
        """The profile of a model id at this endpoint. A fine-tuned model (`ft:MODEL:...`) has that of its base
        model."""
        name = model.lower().rpartition("/")[2].removeprefix("ft:")
        found = next((profile for pattern, profile in self.families if fnmatchcase(name, pattern)), self.base)
        limit = next((limit for pattern, limit in self.output_limits if fnmatchcase(name, pattern)), None)
        return found if limit is None else msgspec.structs.replace(found, max_output_tokens=limit)

    def serves(self, host: str) -> bool:
        """True if this host name belongs to the endpoint."""
        return any(host == known or host.endswith("." + known) for known in self.hosts)
