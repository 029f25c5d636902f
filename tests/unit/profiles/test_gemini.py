"""The records of Gemini's endpoints and models."""

from __future__ import annotations

import pytest

from extproc.profiles.gemini import MODELS, find_gemini_endpoint, find_gemini_model


@pytest.mark.parametrize(("endpoint", "base_path", "provider", "name"), [
    ("generativelanguage.googleapis.com", "/v1beta", None, "studio"),
    ("127.0.0.1:8080", "/v1beta", None, "studio"),
    ("us-central1-aiplatform.googleapis.com:443", "/v1/projects/p", None, "vertex"),
    ("aiplatform.googleapis.com", "", None, "vertex"),
    ("127.0.0.1:8080", "/v1/projects/p/locations/l/publishers/google", None, "vertex"),
    ("gateway.local", "/v1", "vertex", "vertex"),
])
def test_the_endpoint_of_a_backend(endpoint, base_path, provider, name):
    assert find_gemini_endpoint(endpoint, base_path, provider).name == name


@pytest.mark.parametrize(("model", "expected"), [
    ("gemini-3-pro-preview", ("level", ("low", "high"), "required")),
    ("models/gemini-3.1-pro-preview", ("level", ("low", "medium", "high"), "required")),
    ("google/Gemini-3-Flash-Preview", ("level", ("minimal", "low", "medium", "high"), "required")),
    ("gemini-3.1-flash-lite", ("level", ("minimal", "low", "medium", "high"), "required")),
    ("gemini-3.5-flash", ("level", ("minimal", "low", "medium", "high"), "required")),
    ("gemini-3.6-flash", ("level", ("minimal", "low", "medium", "high"), "required")),
    ("gemini-3.7-flash", ("level", ("low", "medium", "high"), "required")),
    ("gemini-4-argon", ("level", ("low", "medium", "high"), "required")),
    ("gemini-4-hydrogen", ("level", ("low", "medium", "high", "xhigh"), "required")),
    ("gemini-flash-latest", ("level", ("low", "medium", "high"), "required")),
    ("gemini-3-pro-image-preview", ("none", ("low", "medium", "high"), "optional")),
    ("gemma-3-27b-it", ("none", ("low", "medium", "high"), "none")),
    ("gemma-4-31b-it", ("level", ("minimal", "high"), "optional")),
])
def test_the_record_of_a_model(model, expected):
    record = find_gemini_model(model)
    assert (record.thinking, record.levels, record.signatures) == expected


def test_every_record_can_be_reached():
    for record in MODELS:
        name = record.patterns[0].replace("*", "x" if record.patterns[0].startswith("*") else "")
        assert find_gemini_model(name) is record, record.patterns
