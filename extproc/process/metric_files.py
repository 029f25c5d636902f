"""The files in which processes keep their figures -> one Prometheus text, and the end of those whose process is gone.

prometheus_client gives every process files of its own in PROMETHEUS_MULTIPROC_DIR and adds them up when somebody asks.
Counters and histograms of a dead process still count: they move into one file of the past, so that a gateway that has
replaced its workers a thousand times has no more files than one that has just started. Its gauges go: they told of
something that lived. Used by the parent process, which alone reads and moves; the workers only write.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from extproc.process.output import lines_dropped

_PAST = "past"
"""Stands in a file's name where those of processes have the pid."""
_KEPT = ("counter", "histogram")
_ADDED = "extproc_workers"
_DROPPED = "extproc_log_lines_dropped"
_LOCK = threading.Lock()
"""A file must not be read while it moves, or it would count twice or not at all."""


def shared_metrics(directory: Path) -> bytes:
    """The figures of all processes, added up, as Prometheus text."""
    with _LOCK:
        for pid in {pid for path in directory.glob("*.db") if (pid := _pid(path)) is not None}:
            if not _lives(pid):
                _retire(directory, pid)
        registry = CollectorRegistry()
        registry.register(_Files(directory))
        text = generate_latest(registry)
    if b"\n# TYPE %b " % _ADDED.encode() not in text:  # no worker at all must not look like no figures
        text += f"# HELP {_ADDED} Worker processes alive\n# TYPE {_ADDED} gauge\n{_ADDED} 0.0\n".encode()
    return text


def retire(directory: Path, pid: int) -> None:
    """This process is dead: what it counted joins the past, what it told of its state is removed."""
    with _LOCK:
        _retire(directory, pid)


class _Files(Collector):
    """All files of a folder, as prometheus_client adds them up. What the parent process has dropped of its log, and so
    of its children's lines, is added to what they dropped themselves."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        # A process that starts at this moment has made a file and not filled it yet.
        files = [str(path) for path in sorted(self._directory.glob("*.db")) if path.stat().st_size]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        found = {metric.name: metric for metric in merged}
        theirs = found.get(_DROPPED, CounterMetricFamily(_DROPPED, "Lines that could not be written"))
        found[_DROPPED] = ours = CounterMetricFamily(_DROPPED, theirs.documentation)
        ours.add_metric([], lines_dropped() + sum(sample.value for sample in theirs.samples))
        return found.values()


def _retire(directory: Path, pid: int) -> None:
    for kind in _KEPT:
        path = directory / f"{kind}_{pid}.db"
        if path.exists():
            with contextlib.suppress(OSError):  # a full disk: the file stays, and counts, until there is room
                _add(path, directory / f"{kind}_{_PAST}.db")
                path.unlink()
    for path in directory.glob(f"gauge_*_{pid}.db"):
        path.unlink(missing_ok=True)


def _add(path: Path, past: Path) -> None:
    """The past with this file's figures: made beside it, then put in its place. Raises OSError."""
    total = dict(_values(past))
    for key, value in _values(path):
        total[key] = total.get(key, 0.0) + value
    beside = past.with_suffix(".new")
    beside.write_bytes(_file_of(total))
    beside.replace(past)


def _file_of(values: Mapping[str, float]) -> bytes:
    """A file as prometheus_client's MmapedDict describes it. It is not made by that class: a page of mapped memory for
    which a full disk has no room ends the process."""
    entries = []
    for key, value in values.items():
        text = key.encode()
        padded = text + b" " * (8 - (len(text) + 4) % 8)
        entries.append(struct.pack(f"i{len(padded)}sdd", len(text), padded, value, 0.0))
    body = b"".join(entries)
    return struct.pack("ii", 8 + len(body), 0) + body


def _values(path: Path) -> Iterator[tuple[str, float]]:
    """Key and value of every figure. A file that was cut off gives what it has."""
    with contextlib.suppress(OSError, struct.error, RuntimeError, UnicodeDecodeError):
        for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path)):  # type: ignore[no-untyped-call]
            yield key, value


def _pid(path: Path) -> int | None:
    found = path.stem.rpartition("_")[2]
    return int(found) if found.isdecimal() else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
