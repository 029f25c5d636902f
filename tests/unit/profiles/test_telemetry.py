"""Providers under the names of the OpenTelemetry conventions (gen_ai.provider.name)."""

from __future__ import annotations

import pytest

from extproc.config import Backend
from extproc.profiles.telemetry import telemetry_provider_name

VERTEX = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"


@pytest.mark.parametrize(("api", "url", "provider", "name"), [
    ("openai", "https://api.openai.com/v1", None, "openai"),
    ("openai", "https://x.openai.azure.com/openai/v1", None, "azure.ai.openai"),
    ("openai", "https://api.x.ai/v1", None, "x_ai"),
    ("openai", "https://api.mistral.ai/v1", None, "mistral_ai"),
    ("openai", "https://api.deepseek.com/v1", None, "deepseek"),
    ("openai", "https://api.groq.com/openai/v1", None, "groq"),
    ("openai", "https://openrouter.ai/api/v1", None, "openrouter"),
    ("openai", "http://127.0.0.1:1234/v1", "lmstudio", "lmstudio"),
    ("openai", "http://127.0.0.1:1234/v1", None, "generic"),
    ("openai", "http://127.0.0.1:1234/v1", "our-own", "our-own"),
    ("anthropic", "https://api.anthropic.com/v1", None, "anthropic"),
    ("anthropic", "https://api.deepseek.com/anthropic", None, "deepseek"),
    ("anthropic", "https://api.moonshot.ai/anthropic", None, "moonshot_ai"),
    ("anthropic", "https://llm.example/v1", None, "generic"),
    ("gemini", "https://generativelanguage.googleapis.com/v1beta", None, "gcp.gemini"),
    ("gemini", VERTEX, None, "gcp.vertex_ai"),
])
def test_provider_names(api: str, url: str, provider: str | None, name: str) -> None:
    backend = Backend(api=api, url=url, provider=provider)  # type: ignore[arg-type]
    assert telemetry_provider_name(backend.api, backend.host, backend.base_path, backend.provider) == name
