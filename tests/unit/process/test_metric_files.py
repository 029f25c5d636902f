"""Metric files of several processes: counters of a dead process still count, its gauges are removed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from extproc.process.metric_files import retire_process, shared_metrics
from tests.small_disk import fill, small_disk

WORKER = """
import sys
from extproc.conversation.model import Usage
from extproc.ext_proc.record import Record
from extproc.worker.metrics import PrometheusMetrics
metrics = PrometheusMetrics()
metrics.started()
for number in range(int(sys.argv[1])):
    metrics.began("translate")
    metrics.finished(Record(hop="translate", rule="r", backend="b", outcome="ok", status=200, attempt=1, stream=True,
                            ms=20.0, ms_first_token=10.0, usage=Usage(input=10, output=3)))
metrics.began("translate")
metrics.lagged(0.002, float(sys.argv[2]))  # shows the running streams
print("counted", flush=True)
for line in sys.stdin:  # the generation that it serves now; empty: it only finishes its streams
    metrics.configured(int(line)) if line.strip() else metrics.leaving()
    print("counted", flush=True)
"""


class Workers:
    """Processes that count and then wait to be killed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.running: list[subprocess.Popen[str]] = []

    def start(self, exchanges: int, worst: float = 0.1) -> subprocess.Popen[str]:
        child = subprocess.Popen([sys.executable, "-c", WORKER, str(exchanges), str(worst)], text=True,
                                 env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(self._directory)},
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == "counted\n"
        self.running.append(child)
        return child

    def serves(self, child: subprocess.Popen[str], generation: int | None) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        print("" if generation is None else generation, file=child.stdin, flush=True)
        assert child.stdout.readline() == "counted\n"

    def kill(self, child: subprocess.Popen[str]) -> None:
        child.kill()
        child.communicate()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(tmp_path)
    yield made
    for child in made.running:
        made.kill(child)


def read_metrics(directory: Path) -> dict[str, float]:
    """Sums by name."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(shared_metrics(directory).decode()):
        for sample in family.samples:
            if "le" not in sample.labels:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


REQUESTS, TOKENS = "extproc_requests_total", "gen_ai_client_token_usage_sum"


@pytest.mark.parametrize("announced", [True, False])
def test_counters_of_a_killed_worker_stay_and_its_gauges_are_removed(
        workers: Workers, tmp_path: Path, announced: bool) -> None:
    """Also if its death was not announced: then the next request for metrics notices."""
    first, _ = workers.start(3, worst=0.9), workers.start(2, worst=0.2)
    before = read_metrics(tmp_path)
    assert (before[REQUESTS], before[TOKENS], before["extproc_workers"], before["extproc_streams"],
            before["extproc_event_loop_lag_max_seconds"]) == (5, 65, 2, 2, 0.9)
    workers.kill(first)
    if announced:
        retire_process(tmp_path, first.pid)
    after = read_metrics(tmp_path)
    assert (after[REQUESTS], after[TOKENS], after["extproc_workers"], after["extproc_streams"],
            after["extproc_event_loop_lag_max_seconds"]) == (5, 65, 1, 1, 0.2)
    assert after["extproc_worker_starts_total"] == 2
    assert read_metrics(tmp_path) == after


def generations(directory: Path) -> tuple[float, float]:
    seen = read_metrics(directory)
    return seen["extproc_config_generation"], seen["extproc_config_generation_newest"]


def test_a_change_is_complete_when_all_workers_show_its_generation(workers: Workers, tmp_path: Path) -> None:
    first, second = workers.start(0), workers.start(0)
    workers.serves(first, 1)
    workers.serves(second, 1)
    assert generations(tmp_path) == (1, 1)
    workers.serves(first, 2)
    assert generations(tmp_path) == (1, 2)
    workers.serves(second, 2)
    assert generations(tmp_path) == (2, 2)


def test_starting_and_ending_workers_do_not_delay_a_change(workers: Workers, tmp_path: Path) -> None:
    old, _ = workers.start(0), workers.start(0)
    workers.serves(old, 1)
    assert generations(tmp_path) == (1, 1)
    new = workers.start(0)
    workers.serves(new, 2)
    workers.serves(old, None)
    assert generations(tmp_path) == (2, 2)
    workers.serves(old, 3)  # it still learns of changes, but gets no new requests
    assert generations(tmp_path) == (2, 2)
    workers.kill(new)
    workers.serves(workers.start(0), 1)
    assert generations(tmp_path) == (1, 1), "the generation of a dead worker is removed"


def test_without_a_worker_the_metric_is_zero(workers: Workers, tmp_path: Path) -> None:
    assert read_metrics(tmp_path) == {"extproc_workers": 0.0, "extproc_log_lines_dropped_total": 0.0}
    workers.kill(workers.start(1))
    assert read_metrics(tmp_path)["extproc_workers"] == 0
    assert read_metrics(tmp_path)[REQUESTS] == 1


def copies(directory: Path, source: int, pid: int) -> None:
    """The files that a worker with this pid would leave."""
    for path in directory.glob(f"*_{source}.db"):
        path.with_name(path.name.replace(str(source), str(pid))).write_bytes(path.read_bytes())


def test_the_number_of_files_is_bounded_over_many_replacements(workers: Workers, tmp_path: Path) -> None:
    child = workers.start(2)
    files = sorted(tmp_path.iterdir())
    size = sum(path.stat().st_size for path in files)
    for number in range(300):
        copies(tmp_path, child.pid, 9_000_000 + number)
        retire_process(tmp_path, 9_000_000 + number)
    after = sorted(tmp_path.iterdir())
    assert len(after) == len(files) + 2, "the merged files: one of counters, one of histograms"
    assert sum(path.stat().st_size for path in after) <= 3 * size
    assert read_metrics(tmp_path)[REQUESTS] == 2 * 301
    assert read_metrics(tmp_path)[TOKENS] == 26 * 301


def test_a_truncated_file_loses_only_its_rest(workers: Workers, tmp_path: Path) -> None:
    child = workers.start(4)
    copies(tmp_path, child.pid, 9_000_001)
    broken = tmp_path / "counter_9000001.db"
    broken.write_bytes(broken.read_bytes()[:600])
    (tmp_path / "histogram_9000002.db").write_bytes(b"")
    figures = read_metrics(tmp_path)
    assert figures[REQUESTS] >= 4
    assert not list(tmp_path.glob("*_900000*"))


def test_an_empty_file_of_a_starting_process_is_skipped(workers: Workers, tmp_path: Path) -> None:
    workers.start(2)
    (tmp_path / f"counter_{os.getpid()}.db").touch()
    assert read_metrics(tmp_path)[REQUESTS] == 2


def test_no_request_sees_a_file_that_moves(workers: Workers, tmp_path: Path) -> None:
    """A scrape during many deaths sees every count exactly once."""
    child = workers.start(1)
    seen: list[float] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            seen.append(read_metrics(tmp_path)[REQUESTS])

    asking = threading.Thread(target=ask)
    asking.start()
    for _ in range(40):
        for path in tmp_path.glob(f"counter_{child.pid}.db"):
            temporary = tmp_path / "made"
            temporary.write_bytes(path.read_bytes())
            temporary.rename(tmp_path / f"counter_{os.getpid()}.db")  # as if of a live process
        retire_process(tmp_path, os.getpid())
    over.set()
    asking.join()
    assert seen == sorted(seen), "a figure decreased: a file was missing while it moved"
    assert max(seen) <= 41
    assert read_metrics(tmp_path)[REQUESTS] == 41




ON_A_FULL_DISK = """
import sys
from extproc.ext_proc.record import Record
from extproc.worker.metrics import PrometheusMetrics
from extproc.process.reserved_files import reserve_files
reserve_files()
metrics = PrometheusMetrics()
def count(rules):
    for number in range(rules):
        metrics.began("translate")
        metrics.finished(Record(hop="translate", rule=f"rule-{number}", outcome="ok", status=200, attempt=1, ms=20.0))
    print("counted", flush=True)
count(2)
for line in sys.stdin:
    count(int(line))
"""


def test_a_full_disk_ends_no_process_with_metrics(tmp_path: Path) -> None:
    """Its files are mapped into memory, and writing to a page without room on the disk would end it. Figures without
    room appear when there is room again; the others continue."""
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        metrics = disk / "metrics"
        metrics.mkdir()
        child = subprocess.Popen([sys.executable, "-c", ON_A_FULL_DISK], text=True, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(metrics)})
        assert child.stdin is not None
        assert child.stdout is not None

        def count(rules: int) -> None:
            assert child.stdin is not None
            assert child.stdout is not None
            print(rules, file=child.stdin, flush=True)
            assert child.stdout.readline() == "counted\n", "it has ended"

        assert child.stdout.readline() == "counted\n"
        filler = fill(disk)
        count(100)
        before = read_metrics(metrics)[REQUESTS]
        assert 2 < before <= 102
        filler.unlink()
        count(100)
        assert read_metrics(metrics)[REQUESTS] == 202
        assert read_metrics(metrics)["gen_ai_client_operation_duration_seconds_count"] == 202
        child.stdin.close()
        assert child.wait(10) == 0


def test_a_process_that_starts_on_a_full_disk_works(tmp_path: Path) -> None:
    """Its metrics are lost, its requests are not; and the metrics of a dead process are kept."""
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        metrics = disk / "metrics"
        metrics.mkdir()
        env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(metrics)}
        subprocess.run([sys.executable, "-c", ON_A_FULL_DISK], input="10\n", text=True, env=env, check=True)
        filler = fill(disk)
        assert read_metrics(metrics)[REQUESTS] == 12, "its file stays while there is no room to merge it"
        subprocess.run([sys.executable, "-c", ON_A_FULL_DISK], input="10\n", text=True, env=env, check=True)
        filler.unlink()
        assert read_metrics(metrics)[REQUESTS] == 12
