"""The wall clock jumps while the gateway serves: all of its processes, Envoy included, read the time through a small
library of this test, which adds the seconds that a file holds. Nothing waits longer, nothing ends earlier, no team is
locked out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.gateway import CLIENT_KEY, Gateway, configuration
from tests.e2e.odd_clients import Case, ending, seen, sends
from tests.e2e.test_lifecycle import wait_until
from tests.e2e.wire import payload, post, request, stream
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, completion
from tests.providers.openai import stream as deltas

CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void) {
    char text[32] = {0};
    int file = open(getenv("CLOCK_JUMP"), O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    return size > 0 ? atol(text) : 0;
}
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, now);
    if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += jump();
    return failed;
}
int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *into) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (into) *into = found.tv_sec;
    return found.tv_sec;
}
"""

pytestmark = pytest.mark.skipif(shutil.which("cc") is None,
                                reason="the clock of this test is made with a C compiler (cc), which is not installed")
DAY = 86_400


@pytest.fixture(scope="module")
def jump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that holds the seconds by which the clock is wrong."""
    file = tmp_path_factory.mktemp("clock") / "jump"
    file.write_text("0")
    return file


@pytest.fixture(scope="module")
def gateway(provider_server: OpenAIProvider, jump: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    library = jump.with_name("clock.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library), "-ldl"], input=CLOCK.encode(),
                   check=True, capture_output=True, timeout=60)
    config = configuration(provider_server.url, workers=1, teams={"test": {
        "key": CLIENT_KEY, "limits": {"requests_per_minute": 100, "tokens_per_day": 1_000_000}}})
    running = Gateway(config, tmp_path_factory.mktemp("jumping"),
                      {"LD_PRELOAD": str(library), "CLOCK_JUMP": str(jump)})
    yield running
    jump.write_text("0")
    assert running.terminate() == 0, running.output


def date_of(gateway: Gateway) -> float:
    """What Envoy takes for the time, in seconds since 1970."""
    told = request(gateway.base_url, "GET", "/healthz").headers["date"]
    return datetime.strptime(told, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC).timestamp()


def logged(gateway: Gateway) -> list[str]:
    """When the requests were, as the log says that has come until now."""
    return [json.loads(line)["time"] for line in list(gateway.lines) if line.startswith("{") and '"hop"' in line]


@sends(
    Case("the clock jumps back by a day during a stream", "200; the next request: 200", -DAY),
    Case("the clock jumps forward by 400 days during a stream", "200; the next request: 200", 400 * DAY),
    Case("the clock jumps to 1970", "200; the next request: 200", "1970"),
    Case("the clock comes back", "200; the next request: 200", 0),
)
def test_the_clock_jumps(gateway: Gateway, provider: OpenAIProvider, case: Case, jump: Path) -> str:
    gate = Gate()
    held = deltas([{"content": "a"}, gate, {"content": "b"}])
    provider.always(lambda asked: held if asked.body.get("stream") else completion({"content": "ok"}))
    with stream(gateway.base_url) as answer:
        answer.until("content_block_delta")
        wrong = int(1000 - datetime.now(UTC).timestamp()) if case.data == "1970" else case.data
        replacement = jump.with_suffix(".new")
        replacement.write_text(str(wrong))
        os.replace(replacement, jump)
        now = datetime.now(UTC).timestamp() + wrong
        wait_until(lambda: abs(date_of(gateway) - now) < 60, 5, "Envoy tells the wrong time")
        found = [post(gateway.base_url, payload()) for _ in range(3)]
        gate.open()
        streamed = ending(answer)
    assert answer.text == "ab"
    assert not {"429", "503"} & {str(one.status) for one in found}, "no limit and no silence of who counts"
    day = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
    wait_until(lambda: [when[:10] for when in logged(gateway)[-1:]] == [day], 5, "the log tells the wrong time")
    return f"{streamed}; the next request: {seen(found[-1])}"
