"""Gemini behind the real Envoy."""
