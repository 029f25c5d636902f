"""Errors of providers in every shape."""

from __future__ import annotations

import json

import pytest

from extproc.apis.shared.provider_errors import MESSAGE_LIMIT, decode_error, failure_from_chunk


def decode(status, body, headers=None):
    raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return decode_error(status, headers or {}, raw)


@pytest.mark.parametrize(("status", "kind"), [
    (400, "invalid_request"), (401, "authentication"), (402, "billing"), (403, "permission"), (404, "not_found"),
    (405, "invalid_request"), (408, "timeout"), (409, "conflict"), (413, "too_large"), (422, "invalid_request"),
    (429, "rate_limit"), (500, "server"), (502, "server"), (503, "unavailable"), (504, "timeout"), (529, "overloaded"),
])
def test_p14_every_status_is_kept_and_has_its_kind(status, kind):
    failure = decode(status, {"error": {"message": "said so", "type": "some_error", "code": "some_code"}},
                     {"retry-after": "17"})
    assert (failure.status, failure.kind, failure.message) == (status, kind, "said so")
    assert (failure.retry_after, failure.code) == ("17", "some_code")


def test_an_error_with_a_status_below_400_becomes_502():
    assert decode(302, "").status == 502
    assert decode(302, "").kind == "server"


@pytest.mark.parametrize(("body", "message"), [
    ({"error": {"message": "plain", "type": "t", "param": None, "code": None}}, "plain"),
    ({"error": "only text"}, "only text"),
    ({"error": "only text", "status_code": 500}, "only text"),
    ({"object": "error", "message": "from vLLM", "type": "BadRequestError", "code": 400}, "from vLLM"),
    ({"object": "error", "message": {"detail": [{"loc": ["body", "top_k"], "msg": "Extra inputs"}]}},
     "body.top_k: Extra inputs"),
    ({"detail": "Not authenticated"}, "Not authenticated"),
    ({"detail": [{"loc": ["body", "messages", 0], "msg": "Field required"}, {"loc": ["body"], "msg": "bad"}]},
     "body.messages.0: Field required; body: bad"),
    ([{"error": {"code": 500, "message": "from Google", "status": "INTERNAL"}}], "from Google"),
    ({"error": {"message": "Provider returned error", "code": 500,
                "metadata": {"provider_name": "Acme", "raw": '{"error":{"message":"gpu on fire"}}'}}},
     "Provider returned error (Acme: gpu on fire)"),
    ({"error": {"message": "flagged", "code": 403, "metadata": {"reasons": ["violence"]}}}, "flagged (violence)"),
    ("upstream connect error", "the provider answered 500: upstream connect error"),
    ("", "the provider answered 500 without a message"),
    ("  \n", "the provider answered 500 without a message"),
    ({}, "the provider answered 500: {}"),
    ([], "the provider answered 500: []"),
    ('{"error": {"message": "cut in the mid', "the provider answered 500 with broken JSON: cut in the mid"),
    ('{"error": {"mess', "the provider answered 500 with broken JSON"),
    (b'\xff\xfe{"error"', "the provider answered 500: \ufffd\ufffd{\"error\""),
    ("\ufeff{\"error\": \"with BOM\"}", "with BOM"),
    ('{"error": {"message": "quotes \\" and\\nnewlines"}}', 'quotes " and\nnewlines'),
])
def test_p14_the_message_is_found_in_every_shape(body, message):
    assert decode(500, body).message == message


def test_p14_html_is_summarised_whatever_its_content_type_says():
    page = "<!DOCTYPE html><html><head><title>502 Bad\n Gateway &amp; more</title></head><body>secret</body></html>"
    failure = decode(502, page, {"content-type": "application/json"})
    assert failure.message == "the provider answered 502 with an HTML page: 502 Bad Gateway & more"
    assert decode(502, "<html><body>x").message == "the provider answered 502 with an HTML page"


def test_a_message_is_bounded_and_holds_no_stack_trace():
    assert len(decode(500, {"error": {"message": "x" * 100_000}}).message) == MESSAGE_LIMIT
    trace = 'Internal error: Traceback (most recent call last):\n  File "/srv/app.py", line 3, in run\nKeyError'
    assert decode(500, {"error": trace}).message == "Internal error"
    assert "app.py" not in decode(500, trace).message


def test_an_overloaded_server_is_recognised_by_its_message():
    assert decode(503, {"error": {"message": "The engine is overloaded"}}).kind == "overloaded"
    assert decode(500, {"error": {"message": "busy", "type": "overloaded_error"}}).kind == "overloaded"


OVERFLOWS = [
    ("OpenAI", "This model's maximum context length is 131072 tokens. However, your messages resulted in 140000 tokens "
     "(130000 in the messages, 10000 in the functions). Please reduce the length of the messages or functions.",
     (140000, 131072, None)),
    ("OpenAI, newer", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 "
     "tokens. Please reduce the length of the messages.", (300000, 272000, None)),
    ("OpenAI, without figures", "Your input exceeds the context window of this model.", (None, None, None)),
    ("DeepSeek", "This model's maximum context length is 131072 tokens. However, you requested 150000 tokens "
     "(118000 in the messages, 32000 in the completion). Please reduce the length of the messages or completion.",
     (118000, 131072, 32000)),
    ("vLLM", "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. Please "
     "reduce the length of the input messages.", (5000, 4096, None)),
    ("vLLM max_tokens", "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context "
     "length is 32768 tokens and your request has 5000 input tokens (32000 > 32768 - 5000).", (5000, 32768, 32000)),
    ("vLLM engine", "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
     (5000, 4096, None)),
    ("vLLM newer", "You passed 40001 input tokens and requested 12 output tokens. However, the model's context length "
     "is only 40000 tokens, resulting in a maximum input length of 39988 tokens.", (40001, 40000, 12)),
    ("SGLang", "The input (150000 tokens) is longer than the model's context length (131072 tokens).",
     (150000, 131072, None)),
    ("SGLang total", "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested "
     "a total of 140000 tokens: 130000 tokens from the input messages and 10000 tokens for the completion.",
     (130000, 131072, 10000)),
    ("OpenRouter", "This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 "
     "tokens (110000 of text input, 8000 of tool input, 32000 in the output). Please reduce the length of either one.",
     (118000, 131072, 32000)),
    ("llama.cpp", "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
     (5000, 4096, None)),
    ("Gemini", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
     (1200000, 1048576, None)),
    ("Mistral", "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context "
     "length", (140000, 131072, None)),
    ("Moonshot", "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)",
     (140000, 131072, None)),
    ("xAI", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
     (537812, 131072, None)),
    ("SGLang tokenizer", "Input length (40000 tokens) exceeds the maximum allowed length (32762 tokens). Use a shorter "
     "input or enable --allow-auto-truncate.", (40000, 32762, None)),
    ("Qwen", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 258048]",
     (None, 258048, None)),
    ("Cohere", "too many tokens: total number of tokens in the prompt exceeds the limit of 128000.",
     (None, 128000, None)),
    ("TGI", "Input validation error: inputs must have less than 4096 tokens. Given: 5000", (5000, 4096, None)),
    ("LiteLLM", "litellm.ContextWindowExceededError: the prompt does not fit", (None, None, None)),
    ("vLLM, no room left", "max_tokens must be at least 1, got -523.", (None, None, None)),
    ("Anthropic relay", "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease",
     (190000, 200000, 32000)),
]


@pytest.mark.parametrize(("server", "message", "figures"), OVERFLOWS, ids=[entry[0] for entry in OVERFLOWS])
@pytest.mark.parametrize("status", [400, 413, 500])
def test_p13_a_context_overflow_is_recognised_with_its_figures(server, message, figures, status):
    failure = decode(status, {"error": {"message": message, "type": "invalid_request_error"}})
    assert (failure.kind, failure.status, failure.code) == ("context_length", 400, "context_length_exceeded")
    assert (failure.prompt_tokens, failure.context_limit, failure.max_tokens) == figures
    assert failure.message == message


def test_p13_a_context_overflow_is_recognised_by_its_code_and_fields():
    assert decode(400, {"error": {"message": "too much", "code": "context_length_exceeded"}}).kind == "context_length"
    failure = decode(400, {"error": {"code": 400, "message": "the request exceeds", "type": "exceed_context_size_error",
                                     "n_prompt_tokens": 5000, "n_ctx": 4096}})
    assert (failure.kind, failure.prompt_tokens, failure.context_limit) == ("context_length", 5000, 4096)
    raw = json.dumps({"error": {"message": OVERFLOWS[4][1]}})
    nested = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    assert decode(400, nested).kind == "context_length"


@pytest.mark.parametrize(("status", "message", "kind"), [
    (400, "max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided "
     "32000.", "invalid_request"),
    (429, "Request too large for gpt-4o: Limit 30000, Requested 140000. The input or output tokens must be reduced in "
     "order to run successfully.", "rate_limit"),
    (400, "Invalid 'messages[3].content': string too long.", "invalid_request"),
    (400, "Missing context for tool call", "invalid_request"),
])
def test_p13_other_limits_are_no_overflow(status, message, kind):
    assert decode(status, {"error": {"message": message}}).kind == kind


@pytest.mark.parametrize(("chunk", "kind", "status"), [
    ({"error": {"message": "overloaded", "code": 502}, "choices": []}, "overloaded", 502),
    ({"error": {"message": "slow down", "code": 429}}, "rate_limit", 429),
    ({"error": {"message": "slow down", "code": "429"}}, "rate_limit", 429),
    ({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, "rate_limit", 429),
    ({"error": {"message": "no", "type": "authentication_error"}}, "authentication", 401),
    ({"error": {"message": "hm", "code": 502, "metadata": {"error_type": "provider_overloaded"}}}, "overloaded", 502),
    ({"error": {"message": "busy", "type": "overloaded_error"}}, "overloaded", 529),
    ({"object": "error", "message": "EngineCore died", "type": "InternalServerError", "code": 500}, "server", 500),
    ({"object": "error", "message": "bad", "type": "BadRequestError"}, "invalid_request", 400),
    ({"error": "gone", "status_code": 503}, "unavailable", 503),
    ({"error": "something"}, "server", 502),
    ({"error": {"message": "odd", "code": "who_knows"}}, "server", 502),
    ({"error": {}}, "server", 502),
    ({"error": None}, "server", 502),
    ({"error": {"message": OVERFLOWS[0][1], "code": 502}}, "context_length", 400),
])
def test_p1_an_error_inside_a_stream_has_the_status_of_its_code(chunk, kind, status):
    failure = failure_from_chunk(chunk)
    assert (failure.kind, failure.status) == (kind, status)
    assert failure.message
