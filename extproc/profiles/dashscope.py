"""Alibaba Cloud Model Studio (DashScope), compatible mode: Qwen, and open models it hosts.

`enable_thinking` switches reasoning and `thinking_budget` bounds it; Qwen 3.5 and later think by default, qwen-plus and
similar models on request, QwQ and the -thinking models always. While a model thinks, tool choices other than auto and
none are refused ("The tool_choice parameter does not support being set to required or object in thinking mode"), and so
is a response format. Open Qwen 3 models think by default and refuse it in requests for a whole response
("parameter.enable_thinking must be set to false for non-streaming calls"). Explicit caching takes `cache_control` on
parts, four at most. Reasoning of turns with calls is sent back as `reasoning_content` to the hosted models that reason
between calls. A prefill is marked `partial`. Source: alibabacloud.com/help/en/model-studio (Deep thinking, Context
cache, OpenAI compatible); qwen-code #7661 for tool choices.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="dashscope",
    splits_reasoning=True,
    refuses=frozenset({"logit_bias"}),
    user=False,
    response_format="json_object",
    reasoning="none",
    thinking_toggle="enable_thinking",
    thinking_budget=True,
    choice_while_thinking=False,
    format_while_thinking=False,
    documents=False,
    prefill="partial",
)
_CACHING = replace(_PLAIN, name="dashscope-caching", cache_marks=True)
_THINKS = replace(_CACHING, name="dashscope-thinks", thinks="by_default")
_ALWAYS = replace(_PLAIN, name="dashscope-always", thinking_toggle=None, thinks="always", thinking_needs_stream=True)
_OPEN = replace(_PLAIN, name="dashscope-open", thinks="by_default", thinking_needs_stream=True)
_HOSTED = replace(_PLAIN, name="dashscope-hosted", thinks="by_default", reasoning_history="with_tool_calls")

PROVIDER = Provider(
    name="dashscope",
    aliases=("qwen", "alibaba", "aliyun"),
    hosts=("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com",
           "coding.dashscope.aliyuncs.com", "coding-intl.dashscope.aliyuncs.com"),
    base=_PLAIN,
    families=(
        ("qwq*", _ALWAYS),
        ("*thinking*", _ALWAYS),
        ("*instruct*", replace(_PLAIN, name="dashscope-instruct", thinking_toggle=None, thinking_budget=False)),
        ("qwen3-coder*", replace(_CACHING, name="dashscope-coder", thinking_toggle=None, thinking_budget=False)),
        ("qwen3-[0-9]*b*", _OPEN),
        ("qwen3.[5-9]*", _THINKS),
        ("qwen[4-9]*", _THINKS),
        ("qwen*-plus*", _CACHING),
        ("qwen*-max*", _CACHING),
        ("qwen*-flash*", _CACHING),
        ("deepseek*", _HOSTED),
        ("glm*", _HOSTED),
        ("kimi*", _HOSTED),
        ("minimax*", _HOSTED),
    ),
)
