"""Method, path and headers; the records of models and doors."""

from __future__ import annotations

import json

import pytest

from extproc.apis import PROVIDER_APIS
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.profiles.gemini import MODELS, find_gemini_endpoint, find_gemini_model
from tests.unit.apis.gemini.request.helpers import PRO_3, VERTEX, sent, target, user

PROJECT = "/v1/projects/p/locations/us-central1"
AIPLATFORM = "us-central1-aiplatform.googleapis.com"


@pytest.mark.parametrize(("stream", "path", "accept"), [
    (True, f"/v1beta/models/{PRO_3}:streamGenerateContent?alt=sse", "text/event-stream"),
    (False, f"/v1beta/models/{PRO_3}:generateContent", "application/json"),
])
def test_the_head_of_a_request(stream, path, accept):
    request = sent(Request(model="m", messages=[user("hi")], stream=stream), target()).request
    assert (request.method, request.path) == ("POST", path)
    assert request.headers == {"content-type": "application/json", "accept": accept, "accept-encoding": "identity"}
    assert "stream" not in json.loads(request.body)
    assert "model" not in json.loads(request.body)


@pytest.mark.parametrize(("model", "settings", "path"), [
    ("models/gemini-2.5-pro", {}, "/v1beta/models/gemini-2.5-pro"),
    ("publishers/google/models/gemini-2.5-pro", {}, "/v1beta/models/gemini-2.5-pro"),
    ("tunedModels/mine-1", {}, "/v1beta/tunedModels/mine-1"),
    ("odd name:x/y?", {}, "/v1beta/models/odd%20name%3Ax%2Fy%3F"),
    ("gemini-2.5-pro", {"base_path": ""}, "/v1beta/models/gemini-2.5-pro"),
    ("gemini-2.5-pro", VERTEX, f"{PROJECT}/publishers/google/models/gemini-2.5-pro"),
    ("publishers/google/models/gemini-2.5-pro", VERTEX, f"{PROJECT}/publishers/google/models/gemini-2.5-pro"),
    ("gemini-2.5-pro", {"endpoint": AIPLATFORM, "base_path": PROJECT},
     f"{PROJECT}/publishers/google/models/gemini-2.5-pro"),
    ("gemini-2.5-pro", {"endpoint": "aiplatform.googleapis.com", "base_path": ""},
     "/v1/publishers/google/models/gemini-2.5-pro"),
    ("publishers/acme/models/x@001", VERTEX, f"{PROJECT}/publishers/acme/models/x@001"),
    ("endpoints/123", {"endpoint": AIPLATFORM, "base_path": PROJECT}, f"{PROJECT}/endpoints/123"),
    ("endpoints/123", VERTEX, f"{PROJECT}/endpoints/123"),
    ("projects/q/locations/eu/endpoints/5", VERTEX, "/v1/projects/q/locations/eu/endpoints/5"),
    ("projects/q/locations/eu/endpoints/5", {"endpoint": "aiplatform.googleapis.com", "base_path": ""},
     "/v1/projects/q/locations/eu/endpoints/5"),
])
def test_the_path_of_a_model(model, settings, path):
    request = Request(model="m", messages=[user("hi")])
    encoded = PROVIDER_APIS["gemini"].encode_request(request, target(model, **settings), Dropped())
    assert encoded.request.path == path + ":generateContent"


@pytest.mark.parametrize(("endpoint", "base_path", "provider", "name"), [
    ("generativelanguage.googleapis.com", "/v1beta", None, "studio"),
    ("127.0.0.1:8080", "/v1beta", None, "studio"),
    ("us-central1-aiplatform.googleapis.com:443", "/v1/projects/p", None, "vertex"),
    ("aiplatform.googleapis.com", "", None, "vertex"),
    ("127.0.0.1:8080", "/v1/projects/p/locations/l/publishers/google", None, "vertex"),
    ("gateway.local", "/v1", "vertex", "vertex"),
])
def test_the_door(endpoint, base_path, provider, name):
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
