"""The configuration records -> docs/configuration.md: one table per record, with every key, type, default and meaning.

Run `python -m extproc.config.reference > docs/configuration.md`; a test fails while that file is out of date. The
meanings are the docstrings of the records' fields.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import NODEFAULT
from msgspec import inspect as types

from extproc.bounds import Limits
from extproc.config.backends import Backend, ProviderKey
from extproc.config.builtin import DEMO_URL_VARIABLE, LOCAL_SERVERS, PROVIDERS
from extproc.config.configuration import Config, EdgeTls, Ejection, Timeouts
from extproc.config.convert import is_set_by_loader
from extproc.config.models import Attempt, ModelRule
from extproc.config.observability import Tracing
from extproc.config.prices import Price, Prices
from extproc.config.teams import LimitsService, ModelLimits, Team, TeamLimits
from extproc.config.tools import EventLabel, EventSettings, ToolSettings
from extproc.profiles.apis import API_FACTS

RECORDS: tuple[tuple[str, type[msgspec.Struct]], ...] = (
    ("The file", Config),
    ("`backends.NAME`", Backend),
    ("`backends.NAME.keys[]`", ProviderKey),
    ("`models[]`", ModelRule),
    ("`models[].attempts[]`", Attempt),
    ("`tools`, `backends.NAME.tools` and `models[].attempts[].tools`", ToolSettings),
    ("`price` of an attempt, a model rule or a backend", Price),
    ("`prices`", Prices),
    ("`teams.NAME`", Team),
    ("`teams.NAME.limits` and `team_limits`", TeamLimits),
    ("`teams.NAME.limits.models.MATCH`", ModelLimits),
    ("`limits_service`", LimitsService),
    ("`limits`", Limits),
    ("`timeouts`", Timeouts),
    ("`ejection`", Ejection),
    ("`tls`", EdgeTls),
    ("`events`", EventSettings),
    ("`events.tools.PATTERN`", EventLabel),
    ("`tracing`", Tracing),
)
"""The sections of the page: a title and the record whose keys it lists."""

INTRODUCTION = """\
# Configuration

One file, YAML or JSON. `extproc check --config FILE` names every error at its path, for example
`models[0].attempts[1].backend: no backend "x"; known: google, openrouter`, and unsafe settings as warnings.

- `${VAR}` inside a text is replaced by the environment variable after the file was parsed, so a value can never change
  the structure of the file. A variable that is not set is an error. `$${` stands for the characters `${`.
- A repeated key and an unknown key are errors.
- `true` and `false` are the only booleans; `off`, `no` and dates are texts.
- In patterns `*` stands for any text (slashes too) and `?` for one character. All other characters, also brackets, are
  literal.
- A bold key has no default and must be given.

```yaml
listen: 127.0.0.1:10000
backends:
  openrouter: {api: openai, url: "https://openrouter.ai/api/v1", key: "${OPENROUTER_API_KEY}"}
  google:     {api: gemini, url: "https://generativelanguage.googleapis.com/v1beta", key: "${GEMINI_API_KEY}"}
  local:      {api: openai, url: "http://127.0.0.1:1234/v1", provider: lmstudio}
models:                          # the first match wins; attempts in failover order
  - match: "claude-*"
    list: [claude-sonnet-4-5]
    attempts:
      - {backend: openrouter, model: qwen/qwen3-coder, max_output_tokens: 65536}
      - {backend: google, model: gemini-3-pro-preview}
      - {backend: local, model: qwen3-coder-30b}
  - match: "local/*"
    attempts: [{backend: local, model: "{star}"}]
teams:
  red: {key: "${RED_KEY}", models: ["claude-*"], limits: {requests_per_minute: 600, tokens_per_minute: 200000}}
```
"""


_KEYS = """\
## Keys of providers

A key comes from the environment (`key: "${VAR}"`) or from a file (`key_file`). Envoy adds it to a request as the last
step. Keep a token that expires in a file: the program that renews it writes the file (in place, by rename, or as
Kubernetes swaps the links of a mounted secret), and the next request has the new token.
The number of backends is not limited; their cost is in [operations.md](operations.md#many-backends).

```yaml
backends:
  # AI Studio: x-goog-api-key
  studio: {api: gemini, url: "https://generativelanguage.googleapis.com/v1beta", key: "${GEMINI_API_KEY}"}
  # Vertex AI: Authorization: Bearer, a token that another program renews
  vertex:
    api: gemini
    url: "https://europe-west1-aiplatform.googleapis.com/v1/projects/PROJECT/locations/europe-west1/publishers/google"
    key_file: /run/secrets/vertex/token
    safety: {HARM_CATEGORY_DANGEROUS_CONTENT: BLOCK_ONLY_HIGH}
  # A proxy of your own that expects a bearer token instead of the API's own header
  proxy: {api: gemini, url: "https://llm.example.com/v1beta", key: "${PROXY_TOKEN}", auth: bearer}
```

A missing or empty file is a warning of `extproc check` and at the start. Until it holds a key, requests of that backend
fail with 503 (and go to the next attempt). Once the file has held a key, the last one stays in use.
"""


def reference() -> str:
    """The whole page, as Markdown."""
    parts = [INTRODUCTION]
    for title, record in RECORDS:
        parts.append(f"## {title}\n\n{_one_line(inspect.getdoc(record) or '')}\n\n{_table(record)}")
    parts += [_KEYS, f"{_safety()}\n", _without_a_file()]
    return "\n".join(parts)


def _table(record: type[msgspec.Struct]) -> str:
    meanings = field_docstrings(record)
    described = types.type_info(record)
    assert isinstance(described, types.StructType)
    lines = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field in (field for field in described.fields if not is_set_by_loader(field)):
        name = f"**`{field.encode_name}`**" if field.required else f"`{field.encode_name}`"
        meaning = _one_line(meanings[field.name]).replace("|", "\\|")
        lines.append(f"| {name} | {_type(field.type)} | {_default(field)} | {meaning} |")
    return "\n".join(lines) + "\n"


def field_docstrings(record: type[msgspec.Struct]) -> dict[str, str]:
    """The text under each field of a record, by the field's name."""
    tree = ast.parse(inspect.getsource(sys.modules[record.__module__]))
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == record.__name__)
    meanings = {}
    for node, following in zip(found.body, found.body[1:], strict=False):
        if (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)):
            meanings[node.target.id] = inspect.cleandoc(str(following.value.value))
    return meanings


def _type(kind: types.Type) -> str:
    if isinstance(kind, types.UnionType):
        return " or ".join(_type(choice) for choice in kind.types if not isinstance(choice, types.NoneType))
    if isinstance(kind, types.LiteralType):
        return ", ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, types.ListType):
        return f"list of {_plural(_type(kind.item_type))}"
    if isinstance(kind, types.DictType):
        return f"mapping of names to {_plural(_type(kind.value_type))}"
    if isinstance(kind, types.StructType):
        return "see below"
    names: dict[type[types.Type], str] = {types.AnyType: "value", types.StrType: "text", types.IntType: "whole number",
                                          types.FloatType: "number", types.BoolType: "true or false"}
    return names[type(kind)]


def _plural(name: str) -> str:
    return " or ".join("entries (see below)" if one == "see below" else f"{one}s" for one in name.split(" or "))


def _default(field: types.Field) -> str:
    if field.required:
        return ""
    default: Any = field.default if field.default is not NODEFAULT else field.default_factory()
    if default is None:
        return "unset"
    if isinstance(default, msgspec.Struct):
        return "as below"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return "empty" if default in ([], {}) else f"`{default}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _safety() -> str:
    return """\
## Safety settings

`safety` of a backend or of an attempt; each category of the attempt overrides that of the backend.
""" + "".join(f"""
With `api: {name}`, thresholds: {', '.join(f'`{threshold}`' for threshold in facts.safety_thresholds)}.
Categories (those of images and of jailbreaks on Vertex AI only):

{_listed(facts.safety_categories)}""" for name, facts in API_FACTS.items() if facts.safety_categories)


def _listed(values: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{value}`" for value in values), 120)


def _without_a_file() -> str:
    rows = "\n".join(f"| `{provider.name}/*` | {' or '.join(f'`{name}`' for name in provider.variables) or 'no key'} "
                     f"| `{provider.url}` |" for provider in (*PROVIDERS, *LOCAL_SERVERS))
    text = f"""\
        ## Without a file

        Without a file `extproc up` serves the model `demo`, a small script that works offline (`{DEMO_URL_VARIABLE}`
        names another address of it), and the models of each provider whose key is in the environment, under the
        provider's name: `openrouter/qwen/qwen3-coder` goes to OpenRouter as `qwen/qwen3-coder`. Servers on the same
        machine need no key: while Ollama runs, `ollama/llama3.2` goes to it as `llama3.2`. A server on another port or
        machine needs a file.

        | models | key in | endpoint |
        | --- | --- | --- |
        """
    return textwrap.dedent(text) + rows + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
