"""Any OpenAI-compatible server that has no file of its own: the defaults of `Profile`.

What the defaults rest on: the fields of Chat Completions that self-hosted servers (vLLM, SGLang, llama.cpp, LM
Studio) accept or ignore. `reasoning_effort` is sent when the client asked for thinking, but only as low, medium or
high: these three are known wherever the field is known, while servers that check it refuse "none", "xhigh" or "max".
A server that refuses the field altogether needs a profile with `reasoning="none"`. A wish not to reason has no field
that is known everywhere: it is named, unless the client says it in words that the server may know. Such words of an
OpenAI client go on as they are.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="generic",
    own_templates=True,
    base=Profile(name="generic", thinks="unknown", client_words=True),
)
