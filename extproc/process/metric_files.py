"""The metric files of all processes -> one Prometheus text; files of dead processes are merged.

prometheus_client gives every process files of its own in PROMETHEUS_MULTIPROC_DIR and adds them up on request. Counters
and histograms of a dead process still count: they move into one file of the past, so that a gateway that has replaced
its workers a thousand times has no more files than a new one. Gauges of a dead process are removed, because they
describe a present state. Used by the parent process, which alone reads and merges; the workers only write.
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
"""Replaces the pid in the names of the merged files."""
_MERGED_KINDS = ("counter", "histogram")
_ADDED = "extproc_workers"
_DROPPED = "extproc_log_lines_dropped"
_LOCK = threading.Lock()
"""A file that is read while it moves would count twice or not at all."""


def shared_metrics(directory: Path) -> bytes:
    """The figures of all processes, added up, as Prometheus text."""
    with _LOCK:
        for pid in {pid for path in directory.glob("*.db") if (pid := _pid(path)) is not None}:
            if not _is_alive(pid):
                _retire(directory, pid)
        registry = CollectorRegistry()
        registry.register(_FilesCollector(directory))
        text = generate_latest(registry)
    if b"\n# TYPE %b " % _ADDED.encode() not in text:  # without any worker, the metric must be 0, not absent
        text += f"# HELP {_ADDED} Worker processes alive\n# TYPE {_ADDED} gauge\n{_ADDED} 0.0\n".encode()
    return text


def retire_process(directory: Path, pid: int) -> None:
    """Merges the counters of a dead process into the past and removes its gauges."""
    with _LOCK:
        _retire(directory, pid)


class _FilesCollector(Collector):
    """All files of a folder, added up by prometheus_client. Log lines that the parent process has dropped, including
    lines of its children, are added to those that the children dropped themselves."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def collect(self) -> Iterable[Metric]:
        # A process that is just starting has created a file and not filled it yet.
        files = [str(path) for path in sorted(self._directory.glob("*.db")) if path.stat().st_size]
        merged: Iterable[Metric] = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]
        found = {metric.name: metric for metric in merged}
        of_children = found.get(_DROPPED, CounterMetricFamily(_DROPPED, "Lines that could not be written"))
        found[_DROPPED] = ours = CounterMetricFamily(_DROPPED, of_children.documentation)
        ours.add_metric([], lines_dropped() + sum(sample.value for sample in of_children.samples))
        return found.values()


def _retire(directory: Path, pid: int) -> None:
    for kind in _MERGED_KINDS:
        path = directory / f"{kind}_{pid}.db"
        if path.exists():
            with contextlib.suppress(OSError):  # a full disk: the file stays and counts until there is room
                _merge_into_past(path, directory / f"{kind}_{_PAST}.db")
                path.unlink()
    for path in directory.glob(f"gauge_*_{pid}.db"):
        path.unlink(missing_ok=True)


def _merge_into_past(path: Path, past: Path) -> None:
    """The merged file with this file's figures, replaced atomically. Raises OSError."""
    total = dict(_values(past))
    for key, value in _values(path):
        total[key] = total.get(key, 0.0) + value
    temporary = past.with_suffix(".new")
    temporary.write_bytes(_encode_file(total))
    temporary.replace(past)


def _encode_file(values: Mapping[str, float]) -> bytes:
    """A file in the format of prometheus_client's MmapedDict. Not made by that class: a mapped page without room on a
    full disk ends the process."""
    entries = []
    for key, value in values.items():
        text = key.encode()
        padded = text + b" " * (8 - (len(text) + 4) % 8)
        entries.append(struct.pack(f"i{len(padded)}sdd", len(text), padded, value, 0.0))
    body = b"".join(entries)
    return struct.pack("ii", 8 + len(body), 0) + body


def _values(path: Path) -> Iterator[tuple[str, float]]:
    """Key and value of every figure. A truncated file yields what it has."""
    with contextlib.suppress(OSError, struct.error, RuntimeError, UnicodeDecodeError):
        for key, value, _, _ in MmapedDict.read_all_values_from_file(str(path)):  # type: ignore[no-untyped-call]
            yield key, value


def _pid(path: Path) -> int | None:
    found = path.stem.rpartition("_")[2]
    return int(found) if found.isdecimal() else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
