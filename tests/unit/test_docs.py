"""The pages under docs/ are true: tables, configuration, code, output. Generated pages have tests of their own."""

from __future__ import annotations

import io
import json
import re
import runpy
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from extproc import Translation, profiles
from extproc.apis import PROVIDER_APIS
from extproc.cli import app
from extproc.config import load_config, warnings_of
from extproc.conversation.signatures import extract_from_id
from extproc.dialects import registry
from extproc.profiles.profile import Provider
from tests.docs_tables import PLACE, TABLES, written
from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


class Environment(dict[str, str]):
    """Every variable is set."""

    def __missing__(self, name: str) -> str:
        return f"key-of-{name}"

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]

    def __contains__(self, name: object) -> bool:
        return True


def blocks(page: Path | str, language: str) -> list[str]:
    """The code blocks of a page in this language; "" selects blocks without one."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [block for found, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S) if found == language]


def run_example(folder: Path, mark: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs the Python block of extending.md that contains `mark`, with these global names; returns its globals."""
    found, = (block for block in blocks("extending.md", "python") if mark in block)
    file = folder / "snippet.py"
    file.write_text(found, encoding="utf-8")
    return runpy.run_path(str(file), names)


# -------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_made_from_code_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == written(text), "run: python -m tests.docs_tables"


def test_every_table_is_shown_somewhere() -> None:
    shown = {found[2] for page in PAGES for found in PLACE.finditer(page.read_text(encoding="utf-8"))}
    assert shown == set(TABLES)


# ------------------------------------------------------------------------------------------------------------ snippets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_configuration_loads(page: Path, tmp_path: Path) -> None:
    """A partial snippet is completed with a backend for each name in use and with a model."""
    for number, block in enumerate(blocks(page, "yaml")):
        text = block
        if not re.search(r"^backends:", block, re.M):
            names = dict.fromkeys(re.findall(r"backend: ([\w-]+)", block)) or ["one"]
            text += "backends: {" + ", ".join(f'{name}: {{api: openai, url: "http://127.0.0.1:1/v1"}}'
                                              for name in names) + "}\n"
        if not re.search(r"^models:", block, re.M):
            name = re.search(r"^  ([\w-]+):", text.split("backends:")[1], re.M)
            used = name[1] if name is not None else "one"
            text += f"models: [{{match: m, attempts: [{{backend: {used}, model: m}}]}}]\n"
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, encoding="utf-8")
        warnings = [(path, reason) for path, reason in warnings_of(load_config(file, Environment()))
                    if reason != "no model uses it" and not path.endswith("key_file")]
        assert warnings == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_json_and_shell_parse(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block)
    for block in blocks(page, "sh"):
        result = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, timeout=10)
        assert result.returncode == 0, result.stderr
    for block in blocks(page, "python"):
        compile(block, page.name, "exec")


def test_every_anchor_exists() -> None:
    for page in (ROOT / "README.md", *PAGES):
        for target, anchor in re.findall(r"\]\(([\w./-]*\.md)#([\w-]+)\)", page.read_text(encoding="utf-8")):
            heads = re.findall(r"^#+ (.+)$", (page.parent / target).read_text(encoding="utf-8"), re.M)
            slugs = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads]
            assert anchor in slugs, (page.name, target, anchor)


# ----------------------------------------------------------------------------------------------------------- providers


def test_other_pages_repeat_the_figures_of_the_benchmark() -> None:
    measured = (DOCS / "performance.md").read_text(encoding="utf-8")
    readme_text, deployment_text = (" ".join(page.read_text(encoding="utf-8").split())
                                    for page in (ROOT / "README.md", DOCS / "deployment.md"))
    cost = re.search(r"\| \*\*extproc\*\* \| (\d+) \+ (\d+) us .* (\d+) \+ (\d+) KB \|", measured)
    litellm = re.search(r"\| LiteLLM \| (\d+) \+ 0 us ", measured)
    readme = re.search(r"(\d+) us of CPU in the processor and (\d+) us in Envoy; LiteLLM took (\d+) us", readme_text)
    deployment = re.search(r"(\d+) KB in the processor and (\d+) KB in Envoy for each idle stream", deployment_text)
    assert cost is not None
    assert litellm is not None
    assert readme is not None
    assert deployment is not None
    assert readme.groups() == (cost[1], cost[2], litellm[1])
    assert deployment.groups() == (cost[3], cost[4])


def test_what_translate_prints(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    command, = (block for block in blocks("providers.md", "sh") if block.startswith("extproc translate"))
    first, _, rest = command.partition("\n")
    arguments = shlex.split(first.partition("<<")[0])[1:]
    body = rest.rpartition("JSON\n")[0].encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(body)))
    app(arguments, standalone_mode=False)
    out, err = capfdbinary.readouterr()
    shown, = (block for block in blocks("providers.md", "") if block.startswith("dropped: "))
    assert (err + out).decode().strip() == shown.strip()


def test_the_id_in_the_drawing_contains_the_signature() -> None:
    shown, = (block for block in blocks("translation.md", "") if "_xs1_" in block)
    id_, signature = extract_from_id(shown.split("\n")[0])
    part, = (json.loads(block) for block in blocks("translation.md", "json"))
    assert signature is not None
    assert (id_, signature.value) == (part["functionCall"]["id"], part["thoughtSignature"])
    at = shown.split("\n")[1].index("┘") + 1
    assert shown[:at] == id_, "the lines of the drawing are below the parts of the id"


# ----------------------------------------------------------------------------------------------------------- extending


def test_the_profile_has_the_stated_effect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    provider = run_example(tmp_path, "PROVIDER = Provider(")["PROVIDER"]
    assert isinstance(provider, Provider)
    assert provider.serves("api.acme.example")
    monkeypatch.setattr(profiles, "PROVIDERS", (*profiles.PROVIDERS, provider))
    exchange = Translation("anthropic", "openai", "acme-1", url="https://api.acme.example/v1")
    tool = {"name": "ping", "input_schema": {"type": "object", "properties": {}}}
    body = {"model": "m", "max_tokens": 9, "top_p": 0.5, "thinking": {"type": "adaptive"}, "tools": [tool],
            "tool_choice": {"type": "tool", "name": "ping"}, "messages": [{"role": "user", "content": "hi"}]}
    sent = json.loads(exchange.request(json.dumps(body).encode()).body)
    stated, = (json.loads(block) for block in blocks("extending.md", "json"))
    assert {name: sent[name] for name in stated} == stated
    assert exchange.dropped.losses == ["top_p"]


def test_the_dialect_parses_its_calls_at_every_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dialect, = run_example(tmp_path, "class AtCall")["DIALECTS"]
    monkeypatch.setitem(registry.DIALECTS, "acme", dialect)
    shown, = (block for block in blocks("extending.md", "") if "@call" in block)
    ping = shown.replace("get_weather", "tide").replace("city", "harbor")
    assert_reads("acme", ping, ("tide", {"harbor": "Brest"}), text="Let me look.")
    assert_reads("acme", '@call ping {} @call tide {"day": "now"}', ("ping", {}), ("tide", {"day": "now"}))
    assert_stays_text("acme", "Write @call nothing {} to call nothing.")
    assert_stays_text("acme", "Use @call ping for that.")
    assert_breaks_off("acme", '@call tide {"harbor": "Bre', "tide")


def test_every_client_reaches_the_api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    provider = run_example(tmp_path, "class AcmeProvider")["PROVIDER"]
    monkeypatch.setitem(PROVIDER_APIS, "acme", provider)
    names = run_example(tmp_path, 'PROVIDER_APIS["acme"] = PROVIDER', {"PROVIDER": provider})
    assert names["sent"].path == "/v2/talk"
    assert json.loads(names["sent"].body)["turns"] == [{"role": "user", "text": "hi"}]
    assert b'"content":"hello"' in names["out"]
    assert names["out"].endswith(b"data: [DONE]\n\n")
    stream = b'data: {"text": "hel"}\n\ndata: {"text": "lo"}\n\ndata: {"end": "stop", "tokens": [3, 2]}\n\n'
    for cut in range(len(stream) + 1):
        assert response("anthropic", stream[:cut], stream[cut:]) == response("anthropic", stream)
    assert "message_stop" in response("anthropic", stream)
    assert "message_stop" not in response("anthropic", stream[:40])
    assert '"done":true' in response("events", stream)


def response(client: str, *pieces: bytes) -> str:
    """The client's response for this stream of the provider."""
    exchange = Translation(client=client, upstream="acme", model="acme-1", url="https://a.example")
    exchange.request(b'{"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "x"}]}')
    exchange.start(200, {"content-type": "text/event-stream"})
    return (b"".join(exchange.feed(piece) for piece in pieces) + exchange.finish()).decode()
