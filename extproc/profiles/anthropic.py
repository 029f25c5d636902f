"""What is peculiar about the models behind the Messages API, and about the endpoints that speak it.

Data, one record each, each value with its source. The request encoder and the answer decoder of
`extproc.apis.anthropic.provider` ask these records; they never ask "is this model X?". Nothing here does I/O.

Sources, unless a record names its own: Anthropic's documentation (models overview, migration guides, thinking and its
troubleshooting page, effort, structured outputs, mid-conversation system messages, preserved thinking) and the API's
error messages as users report them.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Literal

import msgspec
from msgspec.structs import replace

from extproc.bounds import bounded_cache
from extproc.profiles.profile import Effort

VERSION = "2023-06-01"
"""`anthropic-version`. The later version 2026-10-21 refuses temperature, top_p and top_k for every model."""
INTERLEAVED = "interleaved-thinking-2025-05-14"
"""Lets a model with a budget think between its tool calls."""
FILES = "files-api-2025-04-14"
BINDING = "thinking-binding-controls-2026-08-01"
"""Allows `thinking.block_binding`."""
TOOL_CHANGES = "mid-conversation-tool-changes-2026-07-01"
"""Allows blocks `tool_addition` and `tool_removal` in the conversation."""

BETA_FIELDS = {"context_management": "context-management-", "speed": "fast-mode-", "mcp_servers": "mcp-client-",
               "fallbacks": "server-side-fallback-", "container": "skills-"}
"""Fields of a request that only a beta allows -> how its value begins: without it they are a 400 ("Extra inputs are not
permitted")."""
DISPLAY_UPDATES = "thinking-display-updates-2026-08-18"
"""Allows `thinking.display: updates`."""

_UP_TO_HIGH: tuple[Effort, ...] = ("low", "medium", "high")
_UP_TO_MAX: tuple[Effort, ...] = ("low", "medium", "high", "max")
_ALL_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class AnthropicModel(msgspec.Struct, frozen=True, kw_only=True):
    """A generation of models. The defaults are those of the newest one: a Claude that nobody knows is a newer one."""

    patterns: tuple[str, ...]
    """Globs on the lower-case model id without what stands before its last slash, dots written as dashes."""
    thinking: frozenset[Literal["enabled", "adaptive"]] = frozenset({"adaptive"})
    """The types of `thinking` that are taken: with a budget, or adaptive. None of them: the model cannot think, or
    does so without being told; the wish is then named."""
    off: Literal["omit", "disabled", "between_tools", "never"] = "never"
    """How thinking is switched off: by leaving the field out, by one of these types, or not at all."""
    unasked: bool = True
    """Whether the model thinks when the field is left out."""
    display: bool = True
    """Whether the text of thinking comes only when `display: summarized` asks for it (default "omitted", from 4.7)."""
    efforts: tuple[Effort, ...] = _ALL_EFFORTS
    """The values of `output_config.effort`; none: the field is refused."""
    off_efforts: tuple[Effort, ...] = _UP_TO_HIGH
    """The efforts that may stand beside a type that switches thinking off (400 for xhigh and max at Claude)."""
    effort_map: dict[str, Effort] = {}
    """Efforts that the endpoint itself takes for others, where the nearest is not what it means."""
    sampling: Literal["all", "one", "none"] = "none"
    """Which of temperature, top_p and top_k are taken: all, not temperature and top_p together, or none (400
    "`temperature` is deprecated for this model")."""
    forced_choice: bool = False
    """Whether tool_choice any and tool are taken (400 `type "tool" and "any" are not supported for this model`)."""
    prefill: bool = False
    """Whether the last message may be the model's own, to be continued (400 "does not support assistant message
    prefill")."""
    system_turns: bool = True
    """Whether a system message may stand behind a user message (400 "role 'system' is not supported on this model")."""
    output_format: bool = True
    """Whether `output_config.format` and `strict` tools are taken."""
    bound: bool = True
    """Whether thinking is bound to the conversation before it: an edited history is a 400 unless
    `thinking.block_binding` says that such blocks may be dropped."""
    interleaved: bool = False
    """Whether thinking between tool calls needs the beta `INTERLEAVED`."""
    max_output_tokens: int = 128_000
    """The most that `max_tokens` may say."""

    @property
    def thinks(self) -> bool:
        return bool(self.thinking)


class AnthropicEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint. The defaults are Anthropic's own; all others are compatible to a degree."""

    name: str
    hosts: tuple[str, ...] = ()
    """Host names; subdomains count as well."""
    faithful: bool = True
    """Whether its answers need no mending: for a client of the same API they pass as they are. If not, the calls and
    the reasoning that models write as text are looked for."""
    signed: bool = True
    """Whether thinking comes back only with the endpoint's own signature. If not, any text does, and a signature that
    the endpoint sends is marked as its own, so that it never reaches Anthropic."""
    thinking_required: bool = False
    """Whether, while the model thinks, every past turn with tool calls must hold thinking; where it was not kept, one
    space stands for it."""
    images: bool = True
    documents: bool = True
    """Whether `document` blocks are taken, PDF and text. If not, text documents become text."""
    media_urls: bool = True
    """Whether media may be named by an https URL. Anthropic fetches it itself."""
    files: bool = True
    """Whether files of the Files API are taken."""
    cache_control: bool = True
    betas: dict[str, str] | None = None
    """The values of the header `anthropic-beta` that are taken, each with its name there; others are left out, with the
    fields of the body that they allow. None: all of them, as its own clients know values that no table has."""
    own_blocks: bool = True
    """Whether server tools and their blocks are taken."""
    any_regex: bool = True
    """Whether the schemas of tools may hold regular expressions in any syntax. If not, those that not every engine
    compiles (lookaround, `\\p`) go into words."""
    parallel_flag: bool = True
    """Whether `disable_parallel_tool_use` has an effect."""
    user: bool = True
    """Whether `metadata.user_id` is taken."""
    plain_user: bool = False
    """Whether it may hold nothing but letters, digits, `_` and `-`; others are hashed."""
    max_temperature: float = 1.0
    models: tuple[AnthropicModel, ...] = ()
    """The first match wins."""

    def takes_beta(self, value: str) -> bool:
        return self.betas is None or value in self.betas

    def serves(self, host: str) -> bool:
        """Whether this host name belongs to the endpoint."""
        return any(host == own or host.endswith("." + own) for own in self.hosts)

    def model(self, model: str) -> AnthropicModel:
        """The record of a model id such as `claude-sonnet-4-5-20250929`, `anthropic/claude-sonnet-4.5` or
        `anthropic.claude-opus-4-1-20250805-v1:0`."""
        plain = model.lower().rpartition("/")[2].replace(".", "-")
        return next(record for record in self.models if any(fnmatchcase(plain, pattern) for pattern in record.patterns))


# ------------------------------------------------------------------------------------------------------ Claude's models

_NEWEST = AnthropicModel(patterns=("*",))
_WITH_BUDGET = replace(_NEWEST, thinking=frozenset({"enabled"}), off="omit", unasked=False, display=False, efforts=(),
                       sampling="one", forced_choice=True, prefill=True, system_turns=False, bound=False,
                       interleaved=True, max_output_tokens=64_000)
_NOT_THINKING = replace(_WITH_BUDGET, thinking=frozenset(), sampling="all", output_format=False, interleaved=False)
_ADAPTIVE = replace(_NEWEST, off="omit", unasked=False, forced_choice=True, bound=False)
# The 4.6 models take both kinds of thinking and still all of temperature or top_p, but no prefill any more.
_BOTH = replace(_ADAPTIVE, thinking=frozenset({"enabled", "adaptive"}), display=False, efforts=_UP_TO_MAX,
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
    replace(_NEWEST, patterns=("*sonnet-5-5*",), off="between_tools"),
    replace(_NEWEST, patterns=("*haiku-5-5*",), off="disabled"),
    replace(_NEWEST, patterns=("*opus-5-5*",)),
    # Thinking is on by default from 5 on; it can still be switched off at these two, at efforts up to high.
    replace(_ADAPTIVE, patterns=("*sonnet-5*", "*opus-5*"), off="disabled", unasked=True),
    replace(_NEWEST, patterns=("*mythos-preview*",), thinking=frozenset({"enabled", "adaptive"}), bound=False,
            system_turns=False),
    replace(_NEWEST, patterns=("*fable-5", "*fable-5-20*", "*mythos-5", "*mythos-5-20*"), bound=False),
    _NEWEST,
)

# ------------------------------------------------------------------------------------------------------------ endpoints

ANTHROPIC = AnthropicEndpoint(name="anthropic", hosts=("api.anthropic.com",), models=CLAUDE)


def _betas(*values: str, **renamed: str) -> dict[str, str]:
    """`renamed`: a value of Anthropic's, with `_` for `-`, and what it is called there."""
    return {**{value: value for value in values}, **{name.replace("_", "-"): value for name, value in renamed.items()}}


_CLOUD_BETAS = ("compact-2026-01-12", "computer-use-2025-01-24", "computer-use-2025-11-24", "context-1m-2025-08-07",
                "context-management-2025-06-27", INTERLEAVED, BINDING, DISPLAY_UPDATES, "tool-search-tool-2025-10-19",
                "web-search-2025-03-05")
# Amazon Bedrock's Messages endpoint answers "invalid beta flag" to any other value: anthropics/claude-code 49370 and
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

_OTHER = replace(_WITH_BUDGET, patterns=("*",), off="disabled", sampling="all", interleaved=False, output_format=False,
                 max_output_tokens=384_000)
"""A model of someone else: thinking is a switch, its budget is taken for granted or ignored."""
_OTHER_UNASKED = replace(_OTHER, unasked=True)

COMPATIBLE = AnthropicEndpoint(name="compatible", faithful=False, signed=False, media_urls=False, documents=False,
                               files=False, cache_control=False, betas={}, own_blocks=False, any_regex=False,
                               models=(_OTHER,))
"""Any other server of the API with models that are not Claude: vLLM, SGLang, llama.cpp, LM Studio, Ollama. Thinking
needs no signature there; blocks and betas that only Anthropic has are left out. Regular expressions: anthropics/
claude-code 92969, zai-org/feedback 579, DeepSeek's `is not a "regex"`."""

# DeepSeek, "Using the Anthropic API": images, documents, redacted thinking, cache_control, betas and
# disable_parallel_tool_use are not supported or ignored; of output_config only effort is read, the budget is ignored,
# temperature goes to 2, a forced choice is taken. Thinking is on by default and must come back: 400 "The
# content[].thinking in the thinking mode must be passed back to the API". Efforts: the guide on thinking mode; none may
# stand beside disabled thinking. A user id has its own pattern: 400 "Invalid 'user_id': string does not match pattern"
# (deepseek-ai/awesome-deepseek-agent 67).
_DEEPSEEK = replace(COMPATIBLE, name="deepseek", faithful=True, hosts=("api.deepseek.com",), thinking_required=True,
                    images=False, parallel_flag=False, max_temperature=2.0, plain_user=True,
                    models=(replace(_OTHER_UNASKED, efforts=("low", "high", "max"),
                                    off_efforts=(), effort_map={"medium": "high"}),))
# Moonshot, platform.kimi.ai: K3 always reasons and takes an effort, K2 has a switch without one, K2.7-code none;
# past calls need their reasoning as on the other endpoint; sampling is fixed for all kimi-k models.
_KIMI = replace(_OTHER_UNASKED, patterns=("kimi*",), sampling="none")
_MOONSHOT = replace(COMPATIBLE, name="moonshot", faithful=True,
                    hosts=("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"), thinking_required=True, models=(
                        replace(_KIMI, patterns=("kimi-k3*",), thinking=frozenset(), off="never",
                                efforts=("low", "high", "max")),
                        replace(_KIMI, patterns=("kimi-k2-7-code*",), off="never"),
                        _KIMI,
                        _OTHER))
# Z.AI and Zhipu, docs.z.ai: tool_choice is auto only, thinking is a switch that is on by default, no effort; max_tokens
# goes to 131072.
_ZAI = replace(COMPATIBLE, name="zai", faithful=True, hosts=("api.z.ai", "open.bigmodel.cn"), parallel_flag=False,
               models=(replace(_OTHER_UNASKED, forced_choice=False, max_output_tokens=131_072),))
# MiniMax, platform.minimax.io: the whole answer with its thinking must come back; top_k and stop_sequences are ignored.
_MINIMAX = replace(COMPATIBLE, name="minimax", faithful=True, hosts=("api.minimax.io", "api.minimaxi.com"))

_ALIASES = {"kimi": "moonshot", "zhipu": "zai", "glm": "zai"}
ENDPOINTS: tuple[AnthropicEndpoint, ...] = (ANTHROPIC, _BEDROCK, _VERTEX, _FOUNDRY, _DEEPSEEK,
                                            _MOONSHOT, _ZAI, _MINIMAX, COMPATIBLE)
_BY_NAME = {endpoint.name: endpoint for endpoint in ENDPOINTS}
_CLAUDE_ID = re.compile(r"(^|[/.@-])(claude|anthropic)\b", re.IGNORECASE)
_VERSIONED = re.compile(r"/v\d+[a-z0-9]*$")


KNOWN_NAMES: tuple[str, ...] = (*_BY_NAME, *_ALIASES)
"""What `provider:` of the configuration may say."""


@bounded_cache(entries=1024, longest=200, at=2)
def anthropic_endpoint(endpoint: str, provider: str | None, model: str) -> AnthropicEndpoint:
    """The record of an endpoint: by the `provider` of the configuration, by its host, else by the model: a Claude is
    served by Anthropic or by someone who passes its rules on. `endpoint` is the host, with a port where it has one."""
    if provider is not None:
        named = _BY_NAME.get(_ALIASES.get(provider.lower(), provider.lower()))
        if named is not None:
            return named
    host = endpoint.lower().rpartition("@")[2].partition(":")[0].rstrip(".")
    known = next((one for one in ENDPOINTS if one.serves(host)), None)
    if known is not None:
        return known
    return ANTHROPIC if _CLAUDE_ID.search(model) or not host else COMPATIBLE


def messages_path(base_path: str) -> str:
    """The path of the Messages API below a backend's URL. The SDKs' base URLs stop before `/v1`
    (https://api.deepseek.com/anthropic), so it is put in where the URL has no version."""
    return f"{base_path}/messages" if _VERSIONED.search(base_path) else f"{base_path}/v1/messages"
