"""Gemini's generateContent, as AI Studio and Vertex AI serve it. Provider side only."""

from __future__ import annotations

from extproc.apis.base import Api
from extproc.apis.gemini.provider import PROVIDER

API = Api(name="gemini", provider=PROVIDER)
