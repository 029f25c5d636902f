"""Any OpenAI-compatible server without a file of its own: the defaults of `Profile`.

The defaults are the fields of Chat Completions that self-hosted servers (vLLM, SGLang, llama.cpp, LM Studio) accept or
ignore. `reasoning_effort` is sent if the client asked for thinking, but only as low, medium or high: these three are
known wherever the field is known, while servers that check it refuse "none", "xhigh" or "max". A server that refuses
the field altogether needs a profile with `reasoning="none"`. No field that switches reasoning off is known everywhere:
the request is named, unless an OpenAI client uses a field that the server may know; such fields are forwarded
unchanged.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="generic",
    renders_templates=True,
    base=Profile(name="generic", thinks="unknown", client_reasoning_fields=True),
)
