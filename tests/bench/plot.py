"""Figures of the benchmark -> one picture: `python -m tests.bench.plot docs/bench.json docs/bench.svg`."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

COLOURS = {"native": "#1f77b4", "grpcio": "#ff7f0e", "one API": "#2ca02c", "one hop": "#9467bd", "floor": "#bcbd22",
           "plain": "#7f7f7f", "litellm": "#d62728"}
NAMES = {"native": "extproc, native", "grpcio": "extproc, grpcio", "one API": "extproc, one API on both sides",
         "one hop": "extproc, one-hop mode", "floor": "a worker that only hands on", "plain": "Envoy alone",
         "litellm": "LiteLLM"}


def draw(figures: dict[str, Any], target: Path) -> None:
    """CPU per event by streams (processor and Envoy stacked), time on the way, CPU by request size."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "extproc"
    from matplotlib import pyplot

    figure, (cpu, way, size) = pyplot.subplots(1, 3, figsize=(15, 4.5))
    names = list(figures["streams"])
    counts = max(([one["streams"] for one in found] for found in figures["streams"].values()), key=len)
    for number, name in enumerate(names):
        found = figures["streams"][name]
        places = [index + (number - len(names) / 2 + 0.5) * 0.8 / len(names) for index in range(len(found))]
        processor = [statistics.median(w["processor"] for w in one["windows"]) for one in found]
        envoy = [statistics.median(w["envoy"] for w in one["windows"]) for one in found]
        cpu.bar(places, processor, 0.8 / len(names), color=COLOURS[name], label=NAMES[name])
        cpu.bar(places, envoy, 0.8 / len(names), bottom=processor, color=COLOURS[name], alpha=0.35)
        for share, style in (("p50", "-"), ("p99", ":")):
            way.plot(counts[:len(found)], [one[share] for one in found], color=COLOURS[name], marker="o",
                     linestyle=style)
        costs = figures["requests"].get(name, [])
        size.plot([one["size"] / 1000 for one in costs], [one["processor"] + one["envoy"] for one in costs],
                  color=COLOURS[name], marker="o")
    cpu.set_xticks(range(len(counts)), [str(count) for count in counts])
    cpu.set(title="CPU per streamed event (pale: Envoy's share)", xlabel="streams", ylabel="microseconds", yscale="log")
    way.set(title="Time of an event on its way (dotted: p99)", xlabel="streams", ylabel="ms", xscale="log",
            yscale="log")
    size.set(title="CPU per request", xlabel="KB", ylabel="ms", xscale="log", yscale="log")
    cpu.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(target, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
