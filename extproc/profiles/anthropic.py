"""The models behind the Messages API, and the endpoints that offer it.

Data, one record each, each value with its source. The request encoder, the response decoder and the pass-through of
`extproc.apis.anthropic` read these records and never ask "is this model X?". Nothing here does I/O.

Sources, unless a record names its own: Anthropic's documentation (models overview, migration guides, thinking and its
troubleshooting page, effort, structured outputs, mid-conversation system messages, preserved thinking) and the API's
error messages as users report them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Literal

import msgspec
from msgspec.structs import replace

from extproc.bounds import bounded_cache
from extproc.profiles.profile import Effort

VERSION = "2023-06-01"
"""`anthropic-version`. The later version 2026-10-21 refuses temperature, top_p and top_k for every model."""
INTERLEAVED = "interleaved-thinking-2025-05-14"
"""Allows a model with a budget to think between its tool calls."""
FILES = "files-api-2025-04-14"
BINDING = "thinking-binding-controls-2026-08-01"
"""Allows `thinking.block_binding`."""
TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01"
"""Allows blocks `tool_addition` and `tool_removal` in the conversation."""

BETA_FIELDS = {"context_management": "context-management-", "speed": "fast-mode-", "mcp_servers": "mcp-client-",
               "fallbacks": "server-side-fallback-", "container": "skills-"}
"""Fields of a request that need a beta -> the prefix of its value. Without it they are a 400 ("Extra inputs are not
permitted")."""
DISPLAY_UPDATES = "thinking-display-updates-2026-08-18"
"""Allows `thinking.display: updates`."""

_UP_TO_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
_UP_TO_MAX: tuple[Effort, ...] = ("low", "medium", "high", "max")
_ALL_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class AnthropicModel(msgspec.Struct, frozen=True, kw_only=True):
    """A generation of models. The defaults are those of the newest one, because an unknown Claude is a newer one."""

    patterns: tuple[str, ...]
    """Globs on the part of the model id after the last slash, in lower case, with dots written as dashes."""
    thinking: frozenset[Literal["enabled", "adaptive"]] = frozenset({"adaptive"})
    """The types of `thinking` that are taken: with a budget, or adaptive. Empty: the model cannot think, or its
    thinking cannot be set; a request for thinking is then named."""
    thinking_off: Literal["omit", "disabled", "between_tools", "never"] = "never"
    """How thinking is switched off: by omitting the field, by one of these types, or not at all."""
    thinks_by_default: bool = True
    """True if the model thinks when the field is omitted."""
    hides_thinking: bool = True
    """True if the text of thinking comes only with `display: summarized` (the default is "omitted" from 4.7 on)."""
    efforts: tuple[Effort, ...] = _ALL_EFFORTS
    """The values of `output_config.effort`. Empty: the field is refused."""
    efforts_when_off: tuple[Effort, ...] = _UP_TO_HIGH
    """The efforts that may stand beside a type that switches thinking off (Claude: 400 for xhigh and max)."""
    effort_map: dict[str, Effort] = {}
    """Efforts that the endpoint itself maps to others, if that is not the nearest one."""
    sampling: Literal["all", "one", "none"] = "none"
    """Which of temperature, top_p and top_k are taken: all, not temperature and top_p together, or none (400
    "`temperature` is deprecated for this model")."""
    forced_choice: bool = False
    """True if tool_choice any and tool are taken (else 400 `type "tool" and "any" are not supported for this
    model`)."""
    prefill: bool = False
    """True if the last message may be the model's own, which it continues (else 400 "does not support assistant message
    prefill")."""
    system_turns: bool = True
    """True if a system message may follow a user message (else 400 "role 'system' is not supported on this model")."""
    output_format: bool = True
    """True if `output_config.format` and `strict` tools are taken."""
    thinking_bound: bool = True
    """True if thinking is bound to the conversation before it: an edited history is a 400 unless
    `thinking.block_binding` allows such blocks to be dropped."""
    interleaved: bool = False
    """True if thinking between tool calls needs the beta `INTERLEAVED`."""
    max_output_tokens: int = 128_000
    """The maximum of `max_tokens`."""

    @property
    def can_think(self) -> bool:
        """True if a request can ask for thinking."""
        return bool(self.thinking)

    def accepts_thinking(self, kind: str | None, effort: str | None) -> bool:
        """True if `thinking.type` and `output_config.effort` may be sent together. None: the field is absent."""
        kinds = {None, *self.thinking}
        off = {self.thinking_off, "disabled"} if self.thinking_off == "omit" else {self.thinking_off}
        if kind not in kinds and kind not in off:
            return False
        return effort is None or (effort in self.efforts and (kind in kinds or effort in self.efforts_when_off))

    def refused_sampling(self, given: Collection[str]) -> frozenset[str]:
        """The names among temperature, top_p and top_k in `given` that may not be sent."""
        if self.sampling == "none":
            return frozenset(given)
        return frozenset({"top_p"} if self.sampling == "one" and {"temperature", "top_p"} <= set(given) else ())


class AnthropicEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint. The defaults are Anthropic's own; others are compatible to a degree."""

    name: str
    hosts: tuple[str, ...] = ()
    """Host names; subdomains match as well."""
    faithful: bool = True
    """True if its responses need no repair: for a client of the same API they pass unchanged. Otherwise the text is
    scanned for tool calls and reasoning."""
    signed: bool = True
    """True if thinking is accepted only with the endpoint's own signature. Otherwise any text is, and a signature from
    the endpoint is marked as its own, so that it never reaches Anthropic."""
    thinking_required: bool = False
    """True if every past turn with tool calls must hold thinking while the model thinks; one space replaces lost
    thinking."""
    images: bool = True
    documents: bool = True
    """True if `document` blocks are taken, PDF and text. Otherwise text documents become text."""
    media_urls: bool = True
    """True if media may be given by an https URL, which the endpoint fetches itself."""
    files: bool = True
    """True if files of the Files API are taken."""
    cache_control: bool = True
    betas: dict[str, str] | None = None
    """The values of the header `anthropic-beta` that are taken, each with its name at the endpoint. Others are omitted,
    with the body fields that they allow. None: all values, since its own clients know values that no table lists."""
    server_blocks: bool = True
    """True if server tools and their blocks are taken."""
    any_regex: bool = True
    """True if the schemas of tools may hold regular expressions in any syntax. Otherwise those that not every engine
    compiles (lookaround, `\\p`) move into the description."""
    parallel_flag: bool = True
    """True if `disable_parallel_tool_use` has an effect."""
    user: bool = True
    """True if `metadata.user_id` is taken."""
    plain_user_ids: bool = False
    """True if the user id may hold only letters, digits, `_` and `-`; other ids are hashed."""
    max_temperature: float = 1.0
    models: tuple[AnthropicModel, ...] = ()
    """The first match wins."""

    def takes_beta(self, value: str) -> bool:
        return self.betas is None or value in self.betas

    def serves(self, host: str) -> bool:
        """True if this host name belongs to the endpoint."""
        return any(host == known or host.endswith("." + known) for known in self.hosts)

    def find_model(self, model: str) -> AnthropicModel:
        """The record of a model id such as `claude-sonnet-4-5-20250929`, `anthropic/claude-sonnet-4.5` or
        `anthropic.claude-opus-4-1-20250805-v1:0`."""
        name = model.lower().rpartition("/")[2].replace(".", "-")
        return next(record for record in self.models if any(fnmatchcase(name, pattern) for pattern in record.patterns))


# ------------------------------------------------------------------------------------------------------ Claude's models

_NEWEST = AnthropicModel(patterns=("*",))
_WITH_BUDGET = replace(_NEWEST, thinking=frozenset({"enabled"}), thinking_off="omit", thinks_by_default=False,
                       hides_thinking=False, efforts=(), sampling="one", forced_choice=True, prefill=True,
                       system_turns=False, thinking_bound=False, interleaved=True, max_output_tokens=64_000)
_NOT_THINKING = replace(_WITH_BUDGET, thinking=frozenset(), sampling="all", output_format=False, interleaved=False)
_ADAPTIVE = replace(_NEWEST, thinking_off="omit", thinks_by_default=False, forced_choice=True, thinking_bound=False)
# The 4.6 models take both types of thinking, and temperature or top_p, but no prefill.
_BOTH = replace(_ADAPTIVE, thinking=frozenset({"enabled", "adaptive"}), hides_thinking=False, efforts=_UP_TO_MAX,
                sampling="one", system_turns=False)

CLAUDE: tuple[AnthropicModel, ...] = (
    replace(_NOT_THINKING, patterns=("*claude-3-haiku*", "*claude-3-opus*", "*claude-3-sonnet*", "*claude-2*",
                                     "*claude-instant*"), max_output_tokens=4096),
    replace(_NOT_THINKING, patterns=("*claude-3-5*",), max_output_tokens=8192),
    replace(_WITH_BUDGET, patterns=("*claude-3-7*",), sampling="all", output_format=False, interleaved=False),
    replace(_WITH_BUDGET, patterns=("*opus-4-5*",), efforts=_UP_TO_HIGH),
    replace(_BOTH, patterns=("*opus-4-6*", "*sonnet-4-6*")),
    replace(_ADAPTIVE, patterns=("*opus-4-7*",), system_turns=False),
    replace(_ADAPTIVE, patterns=("*opus-4-8*",)),
    replace(_WITH_BUDGET, patterns=("*opus-4-1*", "*opus-4*", "*claude-4-opus*"), output_format=False,
            max_output_tokens=32_000),
    replace(_WITH_BUDGET, patterns=("*sonnet-4-5*", "*haiku-4-5*")),
    replace(_WITH_BUDGET, patterns=("*sonnet-4*", "*claude-4-sonnet*"), sampling="all", output_format=False),
    replace(_NEWEST, patterns=("*sonnet-5-5*",), thinking_off="between_tools"),
    replace(_NEWEST, patterns=("*haiku-5-5*",), thinking_off="disabled"),
    replace(_NEWEST, patterns=("*opus-5-5*",)),
    # From 5 on thinking is on by default; these two can switch it off at efforts up to high.
    replace(_ADAPTIVE, patterns=("*sonnet-5*", "*opus-5*"), thinking_off="disabled", thinks_by_default=True),
    replace(_NEWEST, patterns=("*mythos-preview*",), thinking=frozenset({"enabled", "adaptive"}), thinking_bound=False,
            system_turns=False),
    replace(_NEWEST, patterns=("*fable-5", "*fable-5-20*", "*mythos-5", "*mythos-5-20*"), thinking_bound=False),
    _NEWEST,
)

# ------------------------------------------------------------------------------------------------------------ endpoints

ANTHROPIC = AnthropicEndpoint(name="anthropic", hosts=("api.anthropic.com",), models=CLAUDE)


def _betas(*values: str, **renamed: str) -> dict[str, str]:
    """`renamed`: a value of Anthropic's, with `_` for `-`, and its name at the endpoint."""
    return {**{value: value for value in values}, **{name.replace("_", "-"): value for name, value in renamed.items()}}


_CLOUD_BETAS = ("compact-2026-01-12", "computer-use-2025-01-24", "computer-use-2025-11-24", "context-1m-2025-08-07",
                "context-management-2025-06-27", INTERLEAVED, BINDING, DISPLAY_UPDATES, "tool-search-tool-2025-10-19",
                "web-search-2025-03-05")
# Amazon Bedrock's Messages endpoint refuses any other value ("invalid beta flag"): anthropics/claude-code 49370 and
# 56595, BerriAI/litellm 19877 and its table of betas for the endpoint; the user guide of Bedrock, "Anthropic Claude
# Messages API". It keeps no files, and its tool search has another name.
_BEDROCK = replace(ANTHROPIC, name="bedrock", hosts=("api.aws", "amazonaws.com"), files=False, betas=_betas(
    *_CLOUD_BETAS, "claude-code-20250219", "effort-2025-11-24", "fine-grained-tool-streaming-2025-05-14",
    "output-128k-2025-02-19", "structured-outputs-2025-11-13", "token-efficient-tools-2025-02-19",
    "tool-examples-2025-10-29", advanced_tool_use_2025_11_20="tool-search-tool-2025-10-19"))
# Vertex AI: the same table; docs.cloud.google.com, "Anthropic's Claude models".
_VERTEX = replace(ANTHROPIC, name="vertex", hosts=("googleapis.com",), files=False, betas=_betas(
    *_CLOUD_BETAS, "compact-2026-09-04", advanced_tool_use_2025_11_20="tool-search-tool-2025-10-19"))
# Microsoft Foundry: the same table; learn.microsoft.com, "Claude models in Microsoft Foundry".
_FOUNDRY = replace(ANTHROPIC, name="foundry", hosts=("services.ai.azure.com",), betas=_betas(
    "advanced-tool-use-2025-11-20", "code-execution-2025-08-25", "computer-use-2025-01-24", "computer-use-2025-11-24",
    "context-1m-2025-08-07", "context-management-2025-06-27", "effort-2025-11-24", FILES, INTERLEAVED,
    "mcp-client-2025-04-04", "mcp-client-2025-11-20", "prompt-caching-scope-2026-01-05", "skills-2025-10-02",
    "structured-outputs-2025-11-13", DISPLAY_UPDATES, "web-fetch-2025-09-10", "web-search-2025-03-05"))

_OTHER = replace(_WITH_BUDGET, patterns=("*",), thinking_off="disabled", sampling="all", interleaved=False,
                 output_format=False, max_output_tokens=384_000)
"""A model of another maker: thinking is a switch; its budget is ignored."""
_OTHER_THINKING = replace(_OTHER, thinks_by_default=True)

COMPATIBLE = AnthropicEndpoint(name="compatible", faithful=False, signed=False, media_urls=False, documents=False,
                               files=False, cache_control=False, betas={}, server_blocks=False, any_regex=False,
                               models=(_OTHER,))
"""Any other server of the API with models other than Claude: vLLM, SGLang, llama.cpp, LM Studio, Ollama. Thinking
needs no signature there; blocks and betas that only Anthropic has are omitted. Regular expressions: anthropics/
claude-code 92969, zai-org/feedback 579, DeepSeek's `is not a "regex"`."""

# DeepSeek, "Using the Anthropic API": images, documents, redacted thinking, cache_control, betas and
# disable_parallel_tool_use are not supported or ignored; of output_config only effort is read, the budget is ignored,
# temperature goes up to 2, a forced choice is taken. Thinking is on by default and must be sent back: 400 "The
# content[].thinking in the thinking mode must be passed back to the API". Efforts: the guide on thinking mode; none may
# stand beside disabled thinking. A user id has its own pattern: 400 "Invalid 'user_id': string does not match pattern"
# (deepseek-ai/awesome-deepseek-agent 67).
_DEEPSEEK = replace(COMPATIBLE, name="deepseek", faithful=True, hosts=("api.deepseek.com",), thinking_required=True,
                    images=False, parallel_flag=False, max_temperature=2.0, plain_user_ids=True,
                    models=(replace(_OTHER_THINKING, efforts=("low", "high", "max"),
                                    efforts_when_off=(), effort_map={"medium": "high"}),))
# Moonshot, platform.kimi.ai: K3 always reasons and takes an effort, K2 has a switch without one, K2.7-code none;
# past calls need their reasoning as on the other endpoint; sampling is fixed for all kimi-k models.
_KIMI = replace(_OTHER_THINKING, patterns=("kimi*",), sampling="none")
_MOONSHOT = replace(COMPATIBLE, name="moonshot", faithful=True,
                    hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"), thinking_required=True, models=(
                        replace(_KIMI, patterns=("kimi-k3*",), thinking=frozenset(), thinking_off="never",
                                efforts=("low", "high", "max")),
                        replace(_KIMI, patterns=("kimi-k2-7-code*",), thinking_off="never"),
                        _KIMI,
                        _OTHER))
# Z.AI and Zhipu, docs.z.ai: tool_choice is auto only, thinking is a switch that is on by default, no effort; max_tokens
# goes up to 131072.
_ZAI = replace(COMPATIBLE, name="zai", faithful=True, hosts=("api.z.ai", "open.bigmodel.cn"), parallel_flag=False,
               models=(replace(_OTHER_THINKING, forced_choice=False, max_output_tokens=131_072),))
# MiniMax, platform.minimax.io: the whole response with its thinking must be sent back; top_k and stop_sequences are
# ignored.
_MINIMAX = replace(COMPATIBLE, name="minimax", faithful=True, hosts=("api.minimax.io", "api.minimaxi.com"))

_ALIASES = {"kimi": "moonshot", "zhipu": "zai", "glm": "zai"}
ENDPOINTS: tuple[AnthropicEndpoint, ...] = (ANTHROPIC, _BEDROCK, _VERTEX, _FOUNDRY, _DEEPSEEK,
                                            _MOONSHOT, _ZAI, _MINIMAX, COMPATIBLE)
_BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}
_CLAUDE_ID = re.compile(r"(^|[/.@-])(claude|anthropic)\b", re.IGNORECASE)
_VERSIONED = re.compile(r"/v\d+[a-z0-9]*$")


KNOWN_NAMES: tuple[str, ...] = (*_BY_NAME, *_ALIASES)
"""The values of `provider:` in the configuration."""


@bounded_cache(entries=1024, longest=200, at=2)
def find_anthropic_endpoint(endpoint: str, provider: str | None, model: str) -> AnthropicEndpoint:
    """The record of an endpoint: by `provider` in the configuration, by its host, else by the model, since an unknown
    host that offers Claude has Anthropic's rules. `endpoint`: the host, with its port if it has one."""
    if provider is not None:
        named = _BY_NAME.get(_ALIASES.get(provider.lower(), provider.lower()))
        if named is not None:
            return named
    host = endpoint.lower().rpartition("@")[2].partition(":")[0].rstrip(".")
    known = next((record for record in ENDPOINTS if record.serves(host)), None)
    if known is not None:
        return known
    return ANTHROPIC if _CLAUDE_ID.search(model) or not host else COMPATIBLE


def messages_path(base_path: str) -> str:
    """The path of the Messages API below a backend's URL. The SDKs' base URLs end before `/v1`
    (https://api.deepseek.com/anthropic), so `/v1` is inserted if the URL has no version."""
    return f"{base_path}/messages" if _VERSIONED.search(base_path) else f"{base_path}/v1/messages"
