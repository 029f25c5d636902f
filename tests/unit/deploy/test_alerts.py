"""envoy/prometheus/alerts.yml: every rule asks for figures that /metrics has, and tells of what is there."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from extproc.errors import FailureKind
from extproc.gateway.workers import CONFIGURE_PATIENCE
from tests.unit.deploy.manifests import ROOT, SIDECAR, documents
from tests.unit.deploy.test_dashboard import BY, METRIC, SCRAPED, metrics_text, selectors

PATH = ROOT / "envoy" / "prometheus" / "alerts.yml"
_LABEL = re.compile(r"\$labels\.(\w+)")
_DURATION = re.compile(r"\d+[smh]")


def rules() -> list[dict[str, Any]]:
    group, = yaml.safe_load(PATH.read_text(encoding="utf-8"))["groups"]
    return list(group["rules"])


@pytest.fixture(scope="module")
def series() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics_text()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_what_must_be_told_is() -> None:
    assert {"ExtprocEventLoopLag", "ExtprocErrors", "ExtprocFailovers", "ExtprocReloadRefused", "ExtprocNoWorker"} <= {
        rule["alert"] for rule in rules()}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_asks_for_what_there_is(rule: dict[str, Any], series: dict[str, set[str]]) -> None:
    names = METRIC.findall(rule["expr"])
    assert names
    assert set(names) <= set(series), set(names) - set(series)
    for name, matchers in selectors([rule["expr"]]):
        assert {label for label, _, _ in matchers} <= series[name] | SCRAPED, name
    known = set.intersection(*(series[name] for name in names)) | SCRAPED
    for labels in BY.findall(rule["expr"]):
        assert {label.strip() for label in labels.split(",")} <= known


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_tells_of_labels_that_its_query_leaves(rule: dict[str, Any], series: dict[str, set[str]]) -> None:
    grouped = [{label.strip() for label in labels.split(",")} - {"le"} for labels in BY.findall(rule["expr"])]
    left = set.intersection(*grouped) if grouped else set.intersection(
        *(series[name] for name in METRIC.findall(rule["expr"]))) | SCRAPED
    for text in rule["annotations"].values():
        assert set(_LABEL.findall(text)) <= left, text
    assert set(rule["annotations"]) == {"summary", "description"}
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert _DURATION.fullmatch(rule.get("for", "1m"))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_counters_are_asked_for_their_rate_and_brackets_close(rule: dict[str, Any]) -> None:
    for found in re.finditer(rf"(\w*)\(?({METRIC.pattern})\b", rule["expr"]):
        if found[2].endswith(("_total", "_bucket", "_count", "_sum")):
            assert found[1] in ("rate", "increase"), found[0]
    plain = re.sub(r'"[^"]*"', "", rule["expr"])
    assert all(plain.count(one) == plain.count(other) for one, other in ("()", "[]", "{}"))


def test_workers_that_disagree_are_told_of_before_the_gateway_goes_back() -> None:
    """When a worker does not take a configuration in time, the others get the one before again."""
    rule, = (rule for rule in rules() if rule["alert"] == "ExtprocWorkersDisagree")
    number, unit = re.fullmatch(r"(\d+)([smh])", rule["for"]).groups()  # type: ignore[union-attr]
    assert int(number) * {"s": 1, "m": 60, "h": 3600}[unit] <= CONFIGURE_PATIENCE / 2


def test_kinds_of_failure_that_are_looked_for_exist() -> None:
    kinds = {kind for rule in rules() for found in re.findall(r'error_type=~"([^"]*)"', rule["expr"])
             for kind in found.split("|")}
    assert kinds
    assert kinds <= set(get_args(FailureKind))


def test_no_two_rules_of_one_name() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))


def test_kubernetes_gets_the_same_rules() -> None:
    manifest, = documents(SIDECAR / "monitoring" / "prometheusrule.yaml")
    assert manifest["spec"] == yaml.safe_load(PATH.read_text(encoding="utf-8"))


def test_the_prometheus_of_compose_reads_them() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["prometheus"]["volumes"]
    place = next(volume.split(":")[1] for volume in compose if volume.startswith("./envoy/prometheus/alerts.yml:"))
    settings = yaml.safe_load((ROOT / "envoy" / "compose" / "prometheus.yml").read_text())
    assert settings["rule_files"] == [place]
