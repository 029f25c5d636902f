"""api.moonshot.ai and api.moonshot.cn (Kimi), Chat Completions.

With a thinking model every assistant message with tool calls must carry `reasoning_content` (400 "reasoning_content is
missing in assistant tool call message"); a single space satisfies the check. Kimi K2.5 and K2.6 think unless `thinking:
{"type": "disabled"}` switches it off, and refuse it beside `reasoning_effort`; K2.7 and K2-Thinking always think; K3
always thinks and takes the efforts low, high and max. A named tool choice is refused while the model thinks
("tool_choice 'specified' is incompatible with thinking enabled"), `required` by all but K3. These models fix
temperature, top_p, n and penalties and refuse other values with 400; moonshot-v1 takes temperatures up to 1. Images are
taken only as data. Strict tools and `parallel_tool_calls` are not in its reference. Tool call ids are
`functions.NAME:N`, N counted over the conversation: other ids in the history teach the model to write other ids.
Source: the API's documentation and error messages; inspect_ai #5152 and modelparams.dev #168 probed them model by
model.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_V1 = Profile(
    name="moonshot-v1",
    refuses=frozenset({"top_k", "seed", "logit_bias"}),
    max_stop=5,
    max_temperature=1.0,
    reasoning="none",
    image_urls=False,
    documents=False,
    tool_choices=frozenset({"auto", "none", "tool"}),
    parallel_tool_calls=False,
    prefill="partial",
    tool_call_id_form="functions",
    tool_call_id_max=256,
)
# The endpoint requires reasoning by the request, not by the model, so the field is always sent.
_K2 = replace(_V1, name="moonshot-k2", max_temperature=1.0, images=False, reasoning_history="with_tool_calls",
              reasoning_placeholder=" ")
_K2_HYBRID = replace(
    _K2,
    name="moonshot",
    refuses=_K2.refuses | {"temperature", "top_p", "n", "presence_penalty", "frequency_penalty"},
    images=True,
    thinking_toggle="thinking",
    thinks="by_default",
    choice_while_thinking=False,
)
_K2_THINKING = replace(_K2_HYBRID, name="moonshot-thinking", thinking_toggle=None, thinks="always")
_K3 = replace(
    _K2_THINKING,
    name="moonshot-k3",
    reasoning="effort",
    efforts=("low", "high", "max"),
    effort_map={"medium": "high"},
    tool_choices=frozenset({"auto", "none", "required"}),
    choice_while_thinking=True,
)

PROVIDER = Provider(
    name="moonshot",
    aliases=("kimi", "moonshotai"),
    hosts=("api.moonshot.ai", "api.moonshot.cn"),
    base=_K2_HYBRID,
    families=(
        ("moonshot-v1*", _V1),
        ("kimi-k3*", _K3),
        ("kimi-k2.7*", _K2_THINKING),
        ("kimi-k2-thinking*", replace(_K2_THINKING, images=False)),
        ("kimi-k2-*", _K2),
    ),
)
