"""The configuration without a file: the demo model, every provider whose key is in the environment, and model servers
on this machine, which need no key.

The loader calls it when no path is given. The providers are data: the usual environment variable, the API, and the base
URL from the provider's documentation.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extproc.config.backends import DEMO_URL, Backend
from extproc.config.configuration import Config
from extproc.config.models import STAR, Attempt, ModelRule
from extproc.profiles.apis import ApiName

DEMO_URL_VARIABLE = "EXTPROC_DEMO_URL"


class BuiltinProvider(msgspec.Struct, frozen=True):
    """A provider that is served as `NAME/*` if one of the environment variables holds its key. One without variables is
    always served."""

    name: str
    url: str
    variables: tuple[str, ...] = ()
    api: ApiName = "openai"


PROVIDERS = (
    BuiltinProvider("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    BuiltinProvider("openrouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    BuiltinProvider("deepseek", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",)),
    BuiltinProvider("moonshot", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
    BuiltinProvider("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", ("DASHSCOPE_API_KEY",)),
    BuiltinProvider("xai", "https://api.x.ai/v1", ("XAI_API_KEY",)),
    BuiltinProvider("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    BuiltinProvider("mistral", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    BuiltinProvider("together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    BuiltinProvider("fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    BuiltinProvider("deepinfra", "https://api.deepinfra.com/v1/openai", ("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN")),
    BuiltinProvider("cerebras", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    BuiltinProvider("featherless", "https://api.featherless.ai/v1", ("FEATHERLESS_API_KEY",)),
    BuiltinProvider("kilo", "https://api.kilo.ai/api/gateway", ("KILOCODE_API_KEY", "KILO_API_KEY")),
    BuiltinProvider("zai", "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",)),
    BuiltinProvider("gemini", "https://generativelanguage.googleapis.com/v1beta", ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
             "gemini"),
    BuiltinProvider("anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",), "anthropic"),
)

LOCAL_SERVERS = (
    BuiltinProvider("lmstudio", "http://127.0.0.1:1234/v1"),   # lmstudio.ai/docs/developer/openai-compat
    BuiltinProvider("ollama", "http://127.0.0.1:11434/v1"),    # docs.ollama.com/api/openai-compatibility
    # docs.vllm.ai/en/latest/serving/openai_compatible_server.html
    BuiltinProvider("vllm", "http://127.0.0.1:8000/v1"),
)
"""Servers without a key, at their default addresses. The first request shows whether one runs."""


def builtin_config(env: Mapping[str, str]) -> Config:
    """`demo`, `<provider>/*` for each provider whose key is set, and `<server>/*` for each local server. The provider
    gets the model's name without that prefix."""
    backends = {"demo": Backend(api="openai", url=env.get(DEMO_URL_VARIABLE) or DEMO_URL)}
    models = [ModelRule(match="demo", attempts=[Attempt(backend="demo", model="demo")])]
    for provider in (*PROVIDERS, *LOCAL_SERVERS):
        key = next((env[name].strip() for name in provider.variables if env.get(name, "").strip()), None)
        if key is None and provider.variables:
            continue
        backends[provider.name] = Backend(api=provider.api, url=provider.url, key=key, provider=provider.name)
        models.append(ModelRule(match=f"{provider.name}/*", attempts=[Attempt(backend=provider.name, model=STAR)]))
    return Config(backends=backends, models=models)
