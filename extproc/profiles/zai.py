"""api.z.ai and open.bigmodel.cn (Zhipu's GLM), Chat Completions.

`thinking {type}` switches reasoning, which is on by default from GLM-4.5 on; GLM-5.3 always reasons and refuses
`disabled`. Beside it `reasoning_effort`: GLM-5.2 knows all values (low and medium are high, xhigh is max), GLM-5.3
takes only low, high and max, older models ignore the field. `thinking {clear_thinking: false}` keeps the reasoning of
all earlier turns, which then must be sent back whole and in order; otherwise that of turns with tool calls should be
sent back as `reasoning_content` with the results (interleaved thinking). Without `tool_stream` the arguments of a call
are one piece, sent when it is complete. Tool choice knows only auto; one stop sequence; temperatures up to 1;
`json_object` only; no `user`, `n`, `seed`, penalties or logprobs. Only the V models see images. Finish reasons
`sensitive`, `network_error`, `model_context_window_exceeded`. Source: docs.z.ai (Chat Completion, Thinking Mode, Deep
Thinking, Core Parameters); catwalk #603, Reasonix #9642 and oh-my-pi #2833 for efforts.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_GLM = Profile(
    name="zai",
    refuses=frozenset({"top_k", "n", "seed", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs",
                       "logit_bias"}),
    max_stop=1,
    max_temperature=1.0,
    user=False,
    response_format="json_object",
    streamed_tools_body={"tool_stream": True},
    efforts=("low", "high", "max"),
    effort_map={"medium": "high", "xhigh": "max"},
    thinking_toggle="thinking",
    preserved_thinking=True,
    thinks="by_default",
    reasoning_history="with_tool_calls",
    images=False,
    documents=False,
    tool_choices=frozenset({"auto"}),
    parallel_tool_calls=False,
)

_ALL_EFFORTS = replace(_GLM, name="zai-5.2", effort_map={},
                       efforts=("minimal", "low", "medium", "high", "xhigh", "max"))

PROVIDER = Provider(
    name="zai",
    aliases=("z.ai", "z-ai", "zhipu", "zhipuai", "bigmodel", "glm"),
    hosts=("api.z.ai", "open.bigmodel.cn"),
    base=_GLM,
    families=(
        ("glm-*v*", replace(_ALL_EFFORTS, name="zai-vision", images=True)),
        ("glm-4*", _ALL_EFFORTS),
        ("glm-5", _ALL_EFFORTS),
        ("glm-5-*", _ALL_EFFORTS),
        ("glm-5.[0-2]*", _ALL_EFFORTS),
        ("glm-5.3*", replace(_GLM, name="zai-5.3", thinks="always")),
    ),
)
