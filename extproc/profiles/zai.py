"""api.z.ai and open.bigmodel.cn (Zhipu's GLM), Chat Completions.

`thinking {type}` switches reasoning, which is on by default from GLM-4.5 on. Tool choice knows auto alone; one stop
sequence; temperatures up to 1; `json_object` only; no `user`, `n`, `seed`, penalties or logprobs. The reasoning of
turns with tool calls should come back as `reasoning_content` with the results (interleaved thinking). Only the V
models see images. Finish reasons `sensitive`, `network_error`, `model_context_window_exceeded`. Source: docs.z.ai
(Chat Completion, Thinking Mode).
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
    reasoning="none",
    thinking_toggle="thinking",
    thinks="by_default",
    reasoning_history="with_tool_calls",
    images=False,
    documents=False,
    tool_choices=frozenset({"auto"}),
    parallel_tool_calls=False,
)

PROVIDER = Provider(
    name="zai",
    aliases=("z.ai", "z-ai", "zhipu", "zhipuai", "bigmodel", "glm"),
    hosts=("api.z.ai", "open.bigmodel.cn"),
    base=_GLM,
    families=(("glm-*v*", replace(_GLM, name="zai-vision", images=True)),),
)
