"""Method, path and headers; the records of models and doors."""

from __future__ import annotations

import json

import pytest

from extproc.apis import PROVIDER_APIS
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
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
