"""docs/dialects.md says what the code does: its table is made from the registry, its tests exist, its settings load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from extproc.config import load_config
from extproc.dialects.registry import DIALECTS
from extproc.dialects.writing import WRITABLE
from extproc.profiles.models import FAMILIES

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")
PROVIDER = 'backends: {local: {api: openai, url: "http://127.0.0.1:1234/v1"}}\n'


def table() -> str:
    rows = ["| dialect | models | written | unknown models |", "|---|---|---|---|"]
    for name, dialect in sorted(DIALECTS.items()):
        models = dict.fromkeys(pattern for family in FAMILIES if name in family.dialects
                               for pattern in family.patterns)
        looked_for = bool(dialect.unknown_factories) or (dialect.unambiguous and bool(dialect.forms or dialect.frames))
        rows.append(f"| `{name}` | {', '.join(f'`{model}`' for model in models) or '-'} | "
                    f"{'yes' if name in WRITABLE else '-'} | {'yes' if looked_for else '-'} |")
    return "\n".join(rows)


def test_the_table_is_current() -> None:
    shown = PAGE.split("keeps it current -->\n")[1].split("\n<!-- end of the table")[0]
    assert shown == table(), f"the table must be:\n{table()}"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAGE))))
def test_every_test_named_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert re.search(rf"^def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.M), name


def test_the_settings_load(tmp_path: Path) -> None:
    block, = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    file = tmp_path / "gateway.yaml"
    file.write_text(PROVIDER + block, encoding="utf-8")
    styles = [rule.attempts[0].tools.style for rule in load_config(file, {}).models]
    assert styles == [None, "kimi-k2", "prompted", None], "unset: auto"
