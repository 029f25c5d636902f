"""The configuration that is served without a file: the demo model, every provider whose key is in the environment, and
model servers on this machine that want no key.

Called by the loader when no path is given. The providers are data: the usual environment variable, the API, the base
URL as the provider documents it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from extproc.config.backend_records import Backend
from extproc.config.records import STAR, Attempt, Config, ModelRule

Api = Literal["openai", "anthropic", "gemini"]

DEMO_URL_VARIABLE = "EXTPROC_DEMO_URL"
DEMO_URL = "demo:"
"""Stands for the demo's address until it runs (`Config.with_backend_url`)."""


class Provider(msgspec.Struct, frozen=True):
    """A provider that is served as `NAME/*` when one of the environment variables holds its key; without variables
    always."""

    name: str
    url: str
    variables: tuple[str, ...] = ()
    api: Api = "openai"


PROVIDERS = (
    Provider("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    Provider("openrouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    Provider("deepseek", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    Provider("moonshot", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
    Provider("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", ("DASHSCOPE_API_KEY",)),
    Provider("xai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    Provider("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    Provider("mistral", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    Provider("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    Provider("fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    Provider("deepinfra", "https://api.deepinfra.com/v1/openai", ("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN")),
    Provider("cerebras", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    Provider("featherless", "https://api.featherless.ai/v1", ("FEATHERLESS_API_KEY",)),
    Provider("kilo", "https://api.kilo.ai/api/gateway", ("KILOCODE_API_KEY", "KILO_API_KEY")),
    Provider("zai", "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",)),
    Provider("gemini", "https://generativelanguage.googleapis.com/v1beta", ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
             "gemini"),
    Provider("anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",), "anthropic"),
)

LOCAL_SERVERS = (
    Provider("lmstudio", "http://127.0.0.1:1234/v1"),   # lmstudio.ai/docs/developer/openai-compat
    Provider("ollama", "http://127.0.0.1:11434/v1"),    # docs.ollama.com/api/openai-compatibility
    Provider("vllm", "http://127.0.0.1:8000/v1"),       # docs.vllm.ai/en/latest/serving/openai_compatible_server.html
)
"""Servers that want no key, where they listen unless told otherwise. Whether one runs shows with the first request."""


def builtin_config(env: Mapping[str, str]) -> Config:
    """`demo` and the local servers always; `<provider>/*` for each provider whose key is set, the model named without
    that prefix."""
    backends = {"demo": Backend(api="openai", url=env.get(DEMO_URL_VARIABLE) or DEMO_URL)}
    models = [ModelRule(match="demo", attempts=[Attempt(backend="demo", model="demo")])]
    for provider in (*PROVIDERS, *LOCAL_SERVERS):
        key = next((env[name].strip() for name in provider.variables if env.get(name, "").strip()), None)
        if key is None and provider.variables:
            continue
        backends[provider.name] = Backend(api=provider.api, url=provider.url, key=key, provider=provider.name)
        models.append(ModelRule(match=f"{provider.name}/*", attempts=[Attempt(backend=provider.name, model=STAR)]))
    return Config(backends=backends, models=models)
