"""Keys in files, how they are sent, and safety settings: what the configuration says of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from extproc.config import Attempt, Backend, Config, ConfigError, ModelRule, load_config, warnings_of
from extproc.config.keyfile import LONGEST_KEY_FILE, KeyFile
from extproc.process.log import Log
from extproc.translation.scrubbing import Scrubber
from extproc.worker.exchange_log import configured_secrets

STUDIO = "https://generativelanguage.googleapis.com"
VERTEX = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l"


def load(folder: Path, backend: str, attempt: str = "") -> Config:
    file = folder / "extproc.yaml"
    file.write_text(f"backends: {{b: {{{backend}}}}}\n"
                    f"models: [{{match: m, attempts: [{{backend: b, model: x{attempt}}}]}}]\n", encoding="utf-8")
    return load_config(file, {})


def gemini(rest: str = "", url: str = f"{STUDIO}/v1beta") -> str:
    return f'api: gemini, url: "{url}"{rest}'


# ----------------------------------------------------------------------------------------------------------- key files


@pytest.mark.parametrize("content", ["abc.DEF-1", "abc.DEF-1\n", " \tabc.DEF-1 \r\n\n"])
def test_a_key_is_one_word_with_white_space_around_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content.encode())
    read = KeyFile(str(file))
    assert (read.keys(), read.problem()) == (("abc.DEF-1",), None)


@pytest.mark.parametrize(("content", "said"), [
    ("", "is empty"), (" \n", "is empty"), ("two words", "more than one word"), ("one\ntwo\n", "more than one word"),
    ("schlüssel", "cannot carry"), ("a\0b", "cannot carry"), ("x" * (LONGEST_KEY_FILE + 1), "more than one word"),
])
def test_what_is_no_key_is_said_without_quoting_it(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content.encode())
    read = KeyFile(str(file))
    assert read.keys() == ()
    problem = read.problem()
    assert problem is not None
    assert problem.startswith(str(file))
    assert said in problem
    assert len(problem) < len(str(file)) + 100


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("none", "No such file"), ("", "not a regular file"), ("pipe", "not a regular file")):
        assert said in str(KeyFile(str(tmp_path / name)).problem())
    assert "cannot be read" in str(KeyFile("\0").problem())


def test_a_changed_file_is_read_again_and_old_keys_are_remembered(tmp_path: Path) -> None:
    file = tmp_path / "key"
    read = KeyFile(str(file))
    assert read.keys() == ()
    file.write_text("first")
    assert read.keys() == ("first",)
    file.write_text("second")
    assert read.keys() == ("second", "first")
    fresh = tmp_path / "fresh"
    fresh.write_text("third")
    fresh.rename(file)
    assert read.keys() == ("third", "second", "first")
    file.write_text("back\n")
    assert read.keys() == ("back", "third", "second"), "bounded"
    file.unlink()
    assert read.keys() == ("back", "third", "second")
    assert "No such file" in str(read.problem())
    file.write_text("third")
    assert read.keys() == ("third", "back", "second")
    assert read.problem() is None


def test_a_key_of_the_same_length_in_the_same_moment_is_seen(tmp_path: Path) -> None:
    """The times of files are coarse: two writes within some milliseconds may leave the same."""
    file = tmp_path / "key"
    read = KeyFile(str(file))
    for number in range(10, 60):
        file.write_text(f"key-{number}")
        assert read.keys()[0] == f"key-{number}"


def test_a_link_that_is_pointed_elsewhere_is_a_change(tmp_path: Path) -> None:
    """As Kubernetes replaces the files of a mounted secret."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(f"key-{name}")
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "key").symlink_to("..data/key")
    read = KeyFile(str(tmp_path / "key"))
    assert read.keys() == ("key-one",)
    (tmp_path / "swap").symlink_to("two")
    (tmp_path / "swap").rename(tmp_path / "..data")
    assert read.keys() == ("key-two", "key-one")


def test_a_file_that_stays_the_same_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("key")
    os.utime(file, (1e9, 1e9))
    read = KeyFile(str(file))
    assert read.keys() == ("key",)
    file.write_text("yek")
    os.utime(file, (1e9, 1e9))
    assert read.keys() == ("key",), "nothing shows the change, so the file was not read"


def test_a_relative_path_starts_at_the_configuration_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir("/")
    for written, meant in (("keys/k", f"{tmp_path}/keys/k"), ("../k", f"{tmp_path.parent}/k"), ("/run/k", "/run/k"),
                           ("~/k", "/home/me/k")):
        assert load(tmp_path, gemini(f', key_file: "{written}"')).backends["b"].key_file == meant


# --------------------------------------------------------------------------------------------------------- scrubbing


def test_keys_of_files_are_scrubbed_as_they_are_when_the_answer_comes(tmp_path: Path) -> None:
    """The key may change after the exchange began and before Envoy sends it, and the old one may still be quoted."""
    file = tmp_path / "key"
    file.write_text("token-of-then\n")
    config = load(tmp_path, gemini(", key_file: key"))
    config.backends["b"].remember_keys()  # as each exchange does at its beginning
    scrubber = Scrubber(config.secrets())
    file.write_text("token-of-now!\n")
    assert scrubber.text("bad token-of-now! and token-of-then.") == "bad *** and ***."
    assert "token-of" not in repr(config)


def test_the_log_follows_the_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    config = load(tmp_path, gemini(", key_file: key"))
    lines: list[bytes] = []
    log = Log("debug", lambda: configured_secrets(config), lines.append)
    for key in ("token-one", "token-two"):
        file.write_text(key)
        log.write_event("info", "said", text=f"it was {key}")
    assert [b"it was ***" in line for line in lines] == [True, True]


# ------------------------------------------------------------------------------------------------ problems and warnings


@pytest.mark.parametrize(("backend", "path", "words"), [
    (gemini(", key: k, key_file: /k"), "backends.b.key_file", "beside key"),
    (gemini(", key_file: ''"), "backends.b.key_file", "not the path"),
    (gemini(', key_file: "/a\\nb"'), "backends.b.key_file", "not the path"),
    (gemini(", key: k, auth: basic"), "backends.b.auth", '"bearer" or "key"'),
    (gemini(", safety: {HARM_CATEGORY_HARASMENT: OFF}"), "backends.b.safety.HARM_CATEGORY_HARASMENT",
     'did you mean "HARM_CATEGORY_HARASSMENT"?'),
    (gemini(", safety: {HARM_CATEGORY_HARASSMENT: BLOCK}"), "backends.b.safety.HARM_CATEGORY_HARASSMENT",
     'no threshold "BLOCK"'),
    (gemini(", safety: {HARM_CATEGORY_HARASSMENT: 1}"), "backends.b.safety.HARM_CATEGORY_HARASSMENT",
     "expected a text"),
    (gemini(", safety: {HARM_CATEGORY_UNSPECIFIED: OFF}"), "backends.b.safety.HARM_CATEGORY_UNSPECIFIED",
     "no such category"),
    ('api: openai, url: "https://x.example/v1", safety: {HARM_CATEGORY_HARASSMENT: OFF}', "backends.b.safety",
     "api: gemini"),
])
def test_a_mistake_is_named_where_it_is(tmp_path: Path, backend: str, path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, backend)
    assert any(where == path and words in reason for where, reason in caught.value.problems), caught.value.problems


def test_safety_of_an_attempt_is_checked_with_its_backend(tmp_path: Path) -> None:
    safety = ", safety: {HARM_CATEGORY_HARASSMENT: OFF}"
    assert load(tmp_path, gemini(), safety).models[0].attempts[0].safety == {"HARM_CATEGORY_HARASSMENT": "OFF"}
    with pytest.raises(ConfigError, match=r"models\[0\]\.attempts\[0\]\.safety: .*api: openai"):
        load(tmp_path, 'api: openai, url: "https://x.example/v1"', safety)


@pytest.mark.parametrize(("backend", "path", "words"), [
    (gemini(", key_file: nowhere"), "backends.b.key_file", "nowhere cannot be read: No such file"),
    (gemini(", key_file: extproc.yaml"), "backends.b.key_file", "more than one word"),
    (gemini(", auth: bearer"), "backends.b.auth", "no effect"),
    ('api: openai, url: "http://far.example/v1", key_file: nowhere', "backends.b.url", "unencrypted"),
    (gemini(url=STUDIO), "backends.b.url", "/v1beta"),
    (gemini(url=f"{STUDIO}/v1beta/openai"), "backends.b.url", "api: openai"),
    (gemini(url=f"{STUDIO}/v1beta/models/gemini-3-pro:generateContent"), "backends.b.url", "before /models"),
    (gemini(url=VERTEX), "backends.b.url", "/publishers/google"),
    (gemini(", provider: vertex", url="https://proxy.example/v1"), "backends.b.url", "/publishers/google"),
])
def test_what_works_but_is_not_meant_is_a_warning(tmp_path: Path, backend: str, path: str, words: str) -> None:
    found = dict(warnings_of(load(tmp_path, backend)))
    assert words in found[path]


@pytest.mark.parametrize("url", [f"{STUDIO}/v1beta", f"{VERTEX}/publishers/google", "https://proxy.example/v1"])
def test_a_good_gemini_backend_has_no_warnings(tmp_path: Path, url: str) -> None:
    (tmp_path / "key").write_text("k")
    assert warnings_of(load(tmp_path, gemini(", key_file: key, safety: {HARM_CATEGORY_HARASSMENT: OFF}", url))) == []


# ------------------------------------------------------------------------------------------------------ without a file


@pytest.mark.parametrize("env", [{"GEMINI_API_KEY": "g"}, {"GOOGLE_API_KEY": "g"},
                                 {"GEMINI_API_KEY": "g", "GOOGLE_API_KEY": "other"}])
def test_without_a_file_gemini_is_served_when_its_key_is_set(env: dict[str, str]) -> None:
    config = load_config(None, env)
    assert config.backends["gemini"] == Backend(api="gemini", url=f"{STUDIO}/v1beta", key="g", provider="gemini")
    rule = config.find_rule("gemini/gemini-3-pro-preview")
    assert rule is not None
    assert rule.attempts[0].provider_model(rule.match, "gemini/gemini-3-pro-preview") == "gemini-3-pro-preview"
    assert warnings_of(config) == []


def test_every_supported_api_has_a_provider() -> None:
    from extproc.apis import PROVIDER_APIS
    from extproc.config.builtin import PROVIDERS

    assert set(PROVIDER_APIS) >= {provider.api for provider in PROVIDERS}


def test_a_provider_that_nobody_knows_is_a_warning_with_the_nearest_name() -> None:
    def said(api: str, provider: str) -> str:
        backend = Backend(api=api, url="https://b.example/v1", provider=provider)  # type: ignore[arg-type]
        rule = ModelRule(match="m", attempts=[Attempt(backend="b", model="m")])
        return dict(warnings_of(Config(backends={"b": backend}, models=[rule]))).get("backends.b.provider", "")

    assert 'the nearest name is "deepseek"' in said("openai", "deepsek")
    for api, provider in (("openai", "Kimi"), ("anthropic", "zai"), ("gemini", "vertex"), ("openai", "generic")):
        assert said(api, provider) == ""
