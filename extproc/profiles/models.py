"""Families of models: how a family writes tool calls and reasoning if its server does not parse them.

Data, one record each, found by globs on the model id (the part after the last slash, in lower case). The first match
wins. For an unknown family the scanner looks for unambiguous marks.
Sources: the models' public chat templates and the parsers of inference servers.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from extproc.bounds import bounded_cache


class ModelFamily(msgspec.Struct, frozen=True, kw_only=True):
    """One family."""

    patterns: tuple[str, ...]
    dialects: tuple[str, ...] = ()
    """The dialects in which it may write calls as text, the most likely first."""
    reasoning_open: bool = False
    """True if its prompt always opens the reasoning, so that its text begins inside (only families that always
    think)."""
    think: tuple[tuple[str, str], ...] = (("<think>", "</think>"),)
    """Tags of reasoning at the start of its responses, if its only host leaves them in the text."""
    think_anywhere: bool = False
    """True if it may reason again between texts."""
    tool_call_id_form: Literal["functions"] | None = None
    """The form of past call ids that the model's template requires at any host."""
    never_parallel: bool = False
    """True if its chat template refuses a turn with several calls ("This model only supports single tool-calls at
    once!")."""
    native: bool = False
    """True if its only host parses everything: the text is not scanned."""


FAMILIES: tuple[ModelFamily, ...] = (
    ModelFamily(patterns=("gpt-oss*", "*gpt-oss*"), dialects=("gpt-oss",)),
    ModelFamily(patterns=("gpt-*", "chatgpt-*", "o1*", "o3*", "o4*", "claude-*", "*anthropic.claude-*", "grok-*"),
                native=True),
    # at Google's OpenAI-format endpoint, ai.google.dev/gemini-api/docs/openai ("Thinking"); the tag can be chosen
    ModelFamily(patterns=("gemini-*",), native=True, think=(("<thought>", "</thought>"), ("<think>", "</think>"))),
    # based on Llama, Qwen and others, and named after them: must precede those
    ModelFamily(patterns=("*nemotron*",), dialects=("nemotron", "qwen3-coder", "qwen3-hermes", "llama3-json")),
    ModelFamily(patterns=("*functionary*-v1*", "*functionary*-v2*"), dialects=("functionary-v2",)),
    ModelFamily(patterns=("*functionary*v3.1*", "*functionary*v3-1*"), dialects=("functionary-v3.1",)),
    ModelFamily(patterns=("*functionary*",), dialects=("functionary-v3.2",)),
    ModelFamily(patterns=("*apriel*",), dialects=("apriel",), reasoning_open=True),
    # distilled into Qwen and Llama: must precede those
    ModelFamily(patterns=("*deepseek-r1-distill*", "*deepseek-r1-0528-qwen3*"), reasoning_open=True,
                dialects=("deepseek-v3", "qwen3-hermes")),
    ModelFamily(patterns=("*qwen3-coder*", "*qwen3.5*", "*qwen3.6*", "*qwen-3-coder*"),
                dialects=("qwen3-coder", "qwen3-hermes")),
    ModelFamily(patterns=("*qwq*", "*qwen3*thinking*"), dialects=("qwen3-hermes", "qwen3-coder"), reasoning_open=True),
    ModelFamily(patterns=("*qwen*", "*hermes*"), dialects=("qwen3-hermes", "qwen3-coder")),
    ModelFamily(patterns=("*kimi-dev*",), dialects=("qwen3-hermes",)),  # based on Qwen2.5
    ModelFamily(patterns=("*kimi-k3*",), dialects=("kimi-k3",)),
    ModelFamily(patterns=("*kimi*", "moonshot*"), dialects=("kimi-k2",), tool_call_id_form="functions"),
    ModelFamily(patterns=("*deepseek-r1*",), dialects=("deepseek-v3", "deepseek-v3.1"), reasoning_open=True),
    ModelFamily(patterns=("*deepseek*",),
                dialects=("deepseek-v3.2", "deepseek-v4", "deepseek-v4.1", "deepseek-v3.1", "deepseek-v3")),
    ModelFamily(patterns=("*glm-4*", "*glm-5*", "*glm4*"), dialects=("glm-4.7", "glm-4.6", "glm-4.5")),
    ModelFamily(patterns=("*minimax-m3*",), dialects=("minimax-m3", "minimax-m2")),
    ModelFamily(patterns=("*minimax-m1*",), dialects=("minimax-m1",), reasoning_open=True),
    ModelFamily(patterns=("*minimax-m2*",), dialects=("minimax-m2",), reasoning_open=True),
    ModelFamily(patterns=("*llama-4*", "*llama4*"), dialects=("llama4-pythonic", "llama3-json")),
    # vLLM's docs (Tool Calling, Llama) and unsloth #7426 for its template
    ModelFamily(patterns=("*llama-3*", "*llama3*", "*llama-v3*", "*toolace*"), never_parallel=True,
                dialects=("llama3-json", "llama-pythonic")),
    ModelFamily(patterns=("*mistral*", "*ministral*", "*magistral*", "*devstral*", "*codestral*", "*mixtral*"),
                dialects=("mistral",)),
    ModelFamily(patterns=("*granite-4*", "*granite4*"), dialects=("granite4",)),
    ModelFamily(patterns=("*granite-20b*",), dialects=("granite-20b-fc",)),
    ModelFamily(patterns=("*granite*",), dialects=("granite-3.1", "granite-3.0", "granite4")),
    ModelFamily(patterns=("*functiongemma*",), dialects=("functiongemma",)),
    ModelFamily(patterns=("*gemma-4*", "*gemma4*"), dialects=("gemma-4",)),
    ModelFamily(patterns=("*xlam*",), dialects=("xlam",)),
    ModelFamily(patterns=("*phi-4*", "*phi4*"), dialects=("phi-4-mini",)),
    ModelFamily(patterns=("*seed-oss*",), dialects=("seed-oss",)),
    ModelFamily(patterns=("*longcat*",), dialects=("longcat",)),
    ModelFamily(patterns=("*internlm2*",), dialects=("internlm2",)),
    ModelFamily(patterns=("*step-3.*", "*step3.*", "*step3p*"), dialects=("qwen3-coder", "qwen3-hermes")),
    # its small vision model is based on Qwen3; a further digit is a number of training steps
    ModelFamily(patterns=("*step3", "*step3[!0-9]*", "*step-3", "*step-3[!0-9]*"), reasoning_open=True,
                dialects=("step3", "qwen3-hermes")),
    ModelFamily(patterns=("*apertus*",), dialects=("apertus",)),
    ModelFamily(patterns=("*command-a-reasoning*",), dialects=("command-a", "command-r"), reasoning_open=True),
    ModelFamily(patterns=("*command-a*", "*command-r7b*", "*command-4*", "*cohere2*", "*c4ai*aya*", "*aya-expanse*"),
                dialects=("command-a", "command-r")),
    ModelFamily(patterns=("*command-r*", "*c4ai*"), dialects=("command-r", "command-a")),
    ModelFamily(patterns=("*muse*glimmer*",), dialects=("muse-glimmer",)),
    ModelFamily(patterns=("hy3*", "*-hy3*", "hy4*", "*-hy4*", "*hy-v[34]*"), dialects=("hy3", "hunyuan-a13b")),
    ModelFamily(patterns=("*hunyuan*",), dialects=("hunyuan-a13b", "hy3")),
    ModelFamily(patterns=("*gigachat*",), dialects=("gigachat-3", "gigachat-3.5")),
    ModelFamily(patterns=("*minicpm5*", "*minicpm-5*"), dialects=("minicpm5",)),
    ModelFamily(patterns=("*inkling*",), dialects=("inkling",)),
    ModelFamily(patterns=("*k2-horizon*", "*k2-v3*", "*k2v3*"), dialects=("k2-horizon",)),
    ModelFamily(patterns=("*solar-open2*", "*solar-open-2*"), dialects=("solar-open-2",)),
    ModelFamily(patterns=("*solar-open*",), dialects=("solar-open", "solar-open-2")),
    ModelFamily(patterns=("*iquest*",), dialects=("iquest",)),
    ModelFamily(patterns=("*sarashina*",), dialects=("sarashina",)),
    ModelFamily(patterns=("*ernie*thinking*",), dialects=("ernie-4.5",), reasoning_open=True),
    ModelFamily(patterns=("*ernie*",), dialects=("ernie-4.5",)),
    ModelFamily(patterns=("*laguna*", "*poolside*"), dialects=("poolside",)),
    ModelFamily(patterns=("*jamba*",), dialects=("jamba",)),
    ModelFamily(patterns=("*lfm2*",), dialects=("lfm2",)),
    ModelFamily(patterns=("*olmo-3*", "*olmo3*"), dialects=("olmo3",)),
)


@bounded_cache(entries=1024, longest=200)
def find_family(model: str) -> ModelFamily | None:
    """The family of a model id; None if it is unknown."""
    name = model.lower().rpartition("/")[2]
    for family in FAMILIES:
        if any(fnmatchcase(name, pattern) for pattern in family.patterns):
            return family
    return None
