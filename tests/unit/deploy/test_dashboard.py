"""envoy/grafana/extproc.json: every panel asks for figures that /metrics has, by labels that they have, and every
figure of /metrics is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast, get_args

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from extproc.config import LimitKey
from extproc.conversation.call_counts import CallCounts
from extproc.conversation.model import Usage
from extproc.dialects.call_writer import Repair
from extproc.ext_proc.record import Outcome, Record
from extproc.ext_proc.select import SelectExchange
from extproc.ext_proc.translate import TranslateExchange
from extproc.gateway.admin import AdminServer
from extproc.gateway.envoy_admin import EnvoyAdmin
from extproc.gateway.ratelimit_process import unanswered_metric
from extproc.gateway.reload import ReloadMetrics
from extproc.ratelimit.counters import Charge, LimitStatus
from extproc.ratelimit.metrics import LimitMetrics
from extproc.schemas.cache import Rewritten, SchemaCache
from extproc.worker.metrics import PrometheusMetrics
from tests.unit.deploy.manifests import ROOT

PATH = ROOT / "envoy" / "grafana" / "extproc.json"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCRAPED = {"instance"}
"""Labels that Prometheus adds."""
COLUMNS = 24

METRIC = re.compile(r"\b(?:extproc_|gen_ai_(?:client|server)_)\w+")
_SELECTOR = re.compile(rf"({METRIC.pattern})(?:\{{([^{{}}]*)\}})?")
_MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"\s*(?:,|$)')
BY = re.compile(r"\bby \(([^)]*)\)")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")

Json = dict[str, Any]


class SilentEnvoy:
    """An Envoy that was never asked about limits."""

    def ask(self, method: str, path: str) -> tuple[int, str]:
        return 200, "cluster.limits.ratelimit.error: 0\n"


def metrics_text() -> str:
    """What /metrics says after one exchange in which everything happened."""
    schemas = SchemaCache()
    schemas.get("test", {}, lambda size: Rewritten(cast(Any, b"{}")))
    exchanges = PrometheusMetrics(schemas=schemas)
    exchanges.began("translate")
    exchanges.finished(Record(
        hop="translate", operation="chat", api="anthropic", provider="openai", provider_api="openai", rule="rule",
        model_setting="model", backend="backend", team="team", outcome="ok", status=200, attempt=1, stream=True, ms=2.0,
        ms_first_token=1.0, usage=Usage(input=1, output=2, cached=1, cache_write=1, reasoning=1),
        calls={"native": CallCounts(total=4, repaired=1, unreadable=1, unoffered=1, refused=1)},
        repairs=[Repair("tool", "$", "code_fence")], dropped=["seed"], hints=["user"]))
    exchanges.began("translate")
    exchanges.finished(Record(hop="translate", outcome="provider_error", failure="rate_limit", status=429, attempt=1,
                              retried=True, ms=1.0, usage=Usage(input=1, estimated=True)))
    exchanges.began("select")
    exchanges.finished(Record(hop="select", outcome="error", reason="unknown_model", status=404))
    exchanges.configured(1)
    exchanges.started()
    exchanges.lagged(0.1, 0.1)
    limits = LimitMetrics()
    key = LimitKey("team", "rule", "requests_per_minute")
    state = LimitStatus(key, 1, 0, 60, exceeded=True, counted=True)
    limits.charged(Charge(key), state)
    limits.refused(state)
    reloads = ReloadMetrics()
    reloads.in_force("0123456789ab")
    told = b"".join((generate_latest(exchanges.registry), generate_latest(limits.registry), reloads.text(),
                     unanswered_metric(cast(EnvoyAdmin, SilentEnvoy()))))
    admin = AdminServer(("127.0.0.1", 0), lambda: told)
    try:
        return admin.respond("/metrics")[2].decode()
    finally:
        admin.close()


@pytest.fixture(scope="module")
def series() -> dict[str, set[str]]:
    """The names that can be asked for -> their labels."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics_text()):
        for sample in family.samples:
            if not sample.name.endswith("_created"):  # told by a registry, not by the files of several processes
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(scope="module")
def dashboard() -> Json:
    return dict(json.loads(PATH.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def panels(dashboard: Json) -> list[Json]:
    """Rows and those inside of collapsed ones included."""
    return [panel for top in dashboard["panels"] for panel in (top, *top.get("panels", []))]


@pytest.fixture(scope="module")
def asked(dashboard: Json) -> list[str]:
    return questions(dashboard)


def questions(dashboard: Json) -> list[str]:
    """Every query in PromQL: of panels, annotations and, for their metric, variables."""
    panels = [panel for top in dashboard["panels"] for panel in (top, *top.get("panels", []))]
    return [*(target["expr"] for panel in panels for target in panel.get("targets", [])),
            *(one["expr"] for one in dashboard["annotations"]["list"] if "expr" in one),
            *(one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query")]


def selectors(queries: list[str]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Each metric with its matchers: label, operator, value."""
    for query in queries:
        for name, inside in _SELECTOR.findall(query):
            matchers = _MATCHER.findall(inside)
            assert _MATCHER.sub("", inside) == "", f"not a list of matchers: {inside}"
            yield name, matchers


def test_it_is_a_dashboard_of_grafana_12(dashboard: Json) -> None:
    assert dashboard["schemaVersion"] == 41
    assert dashboard["id"] is None, "Grafana chooses it; the uid keeps links alive"
    assert re.fullmatch(r"[\w-]{1,40}", dashboard["uid"])
    assert dashboard["title"]


def test_every_metric_asked_for_exists(asked: list[str], series: dict[str, set[str]]) -> None:
    names = {name for query in asked for name in METRIC.findall(query)}
    assert names
    assert names <= set(series), names - set(series)


def test_every_metric_is_shown(asked: list[str], series: dict[str, set[str]]) -> None:
    """Whoever adds a metric adds its panel. Of a histogram one series is enough."""
    def family(name: str) -> str:
        return re.sub(r"_(bucket|count|sum)$", "", name)

    shown = {family(name) for query in asked for name in METRIC.findall(query)}
    missing = {family(name) for name in series} - shown
    assert not missing, f"{PATH.name} shows nothing of {missing}"


def test_labels_are_those_of_the_metrics(panels: list[Json], asked: list[str], series: dict[str, set[str]]) -> None:
    for name, matchers in selectors(asked):
        labels = {label for label, _, _ in matchers}
        assert labels <= series[name] | SCRAPED, (name, labels)
    for query in asked:
        known = set.intersection(*(series[name] for name in METRIC.findall(query))) | SCRAPED
        for labels in BY.findall(query):
            assert {label.strip() for label in labels.split(",")} <= known, query


def test_a_legend_names_what_its_query_leaves(panels: list[Json]) -> None:
    for panel in panels:
        for target in panel.get("targets", []):
            left = {label.strip() for labels in BY.findall(target["expr"]) for label in labels.split(",")}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= left, (panel["title"], target["expr"])


def test_values_that_are_looked_for_are_ones_that_are_counted(asked: list[str]) -> None:
    """A misspelled value finds nothing, and a panel without figures looks like good news."""
    known = {"hop": {SelectExchange.hop, TranslateExchange.hop, "onehop"}, "outcome": {*get_args(Outcome), "retried"},
             "gen_ai_token_type": {"input", "output"}, "kind": {"loss", "hint"}}
    looked_for = [(label, value) for _, matchers in selectors(asked) for label, _, values in matchers
                  if label in known for value in values.split("|")]
    assert {label for label, _ in looked_for} == set(known)
    for label, value in looked_for:
        assert value in known[label], (label, value)


def test_counters_are_asked_for_their_rate(asked: list[str]) -> None:
    """What is counted starts at 0 again with each process."""
    for query in asked:
        if query.startswith("label_values"):
            continue
        for found in re.finditer(rf"(\w*)\(?({METRIC.pattern})\b", query):
            if found[2].endswith(("_total", "_bucket", "_count", "_sum")):
                assert found[1] in ("rate", "increase"), query


def test_brackets_close(asked: list[str]) -> None:
    closing = {")": "(", "]": "[", "}": "{"}
    for query in asked:
        opened: list[str] = []
        for mark in re.findall(r"[()\[\]{}]", re.sub(r'"[^"]*"', "", query)):
            if mark in closing:
                assert opened, query
                assert opened.pop() == closing[mark], query
            else:
                opened.append(mark)
        assert not opened, query


def test_every_variable_is_defined_and_used(dashboard: Json, asked: list[str]) -> None:
    defined = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = {name for query in asked for name in _VARIABLE.findall(query) if not name.startswith("__")}
    assert used == defined - {"datasource"}
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":  # "all" must find figures that lack the label as well
            assert (variable["allValue"], variable["includeAll"]) == (".*", True), variable["name"]


def test_all_figures_come_from_the_chosen_data_source(dashboard: Json, panels: list[Json]) -> None:
    source, = (one for one in dashboard["templating"]["list"] if one["name"] == "datasource")
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    asking = [panel for panel in panels if panel["type"] != "row"]
    for one in (*asking, *(target for panel in asking for target in panel["targets"]),
                *(variable for variable in dashboard["templating"]["list"] if variable["type"] == "query")):
        assert one["datasource"] == DATASOURCE, one


def test_panels_are_told_apart_and_explained(panels: list[Json]) -> None:
    ids = [panel["id"] for panel in panels]
    assert len(ids) == len(set(ids))
    titles = [panel["title"] for panel in panels]
    assert len(titles) == len(set(titles)), "two panels of one title"
    for panel in panels:
        references = [target["refId"] for target in panel.get("targets", [])]
        assert len(references) == len(set(references)), panel["title"]
        assert panel["type"] == "row" or (references and panel["description"]), panel["title"]


def test_nothing_lies_on_something_else(dashboard: Json) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert at["x"] >= 0
        assert at["x"] + at["w"] <= COLUMNS, panel["title"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]
