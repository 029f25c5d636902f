"""api.perplexity.ai (Sonar), Chat Completions.

It takes no tools: they go into the prompt. Messages alternate after the system text. A document is a `file_url`, by URL
or as base64 without a prefix. Source: docs.perplexity.ai (Chat Completions, File Attachments); @ai-sdk/perplexity.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="perplexity",
    hosts=("api.perplexity.ai",),
    base=Profile(
        name="perplexity",
        splits_reasoning=True,  # both tags are in the text
        refuses=frozenset({"n", "seed", "logprobs", "top_logprobs", "logit_bias"}),
        user=False,
        system_anywhere=False,
        native_tools=False,
        document_part="file_url",
        document_urls=True,
    ),
)
