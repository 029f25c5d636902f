"""A changed configuration file under a running gateway: what is new serves, what runs is not cut, what is wrong is
refused."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway, configuration
from tests.e2e.wire import ANTHROPIC, payload, post, request, stream
from tests.ports import free_port
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, completion, text
from tests.providers.openai import stream as deltas

Change = dict[str, Any]


class Reloaded:
    """A gateway whose file is changed."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.url = gateway.base_url
        self.config: Change = json.loads(gateway.config_file.read_text())
        self._first = dict(self.config)

    def restore(self) -> None:
        """Puts the first configuration back."""
        if self.config != self._first:
            self.config.clear()
            self.change(**self._first)

    def write(self, text: str) -> None:
        """As editors and Kubernetes do: by rename."""
        beside = self.gateway.config_file.with_suffix(".new")
        beside.write_text(text)
        beside.replace(self.gateway.config_file)

    def change(self, wait: bool = True, **changes: Any) -> None:
        """Replaces top-level keys and waits until the new configuration is in force."""
        self.config.update(changes)
        seen = self.said("in force now")
        self.write(json.dumps(self.config))
        if wait:
            self.until("in force now", seen + 1)

    def said(self, words: str) -> int:
        return sum(words in line for line in self.gateway.lines)

    def until(self, words: str, times: int = 1) -> None:
        wait(lambda: self.said(words) >= times, words, self.gateway)

    def metric(self, name: str) -> str:
        lines = request(f"http://{self.gateway.admin}", "GET", "/metrics").body.decode().splitlines()
        return next((line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")), "")

    def ask(self, model: str = "claude-test", key: str = CLIENT_KEY) -> int:
        return post(self.url, payload(model), headers={**ANTHROPIC, "x-api-key": key}).status


def wait(holds: Callable[[], bool], what: str, gateway: Gateway, seconds: float = 45) -> None:
    """Polls what has no event to wait on (another process)."""
    end, ticker = time.monotonic() + seconds, threading.Event()
    while not holds():
        assert gateway.process.poll() is None, gateway.output
        assert time.monotonic() < end, f"not within {seconds} s: {what}\n{gateway.output}"
        ticker.wait(0.03)


@pytest.fixture
def reloaded(start_gateway: Callable[..., Gateway]) -> Reloaded:
    """A gateway of the test's own."""
    return Reloaded(start_gateway())


@pytest.fixture(scope="module")
def one_gateway(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    running = Gateway(configuration(provider_server.url), tmp_path_factory.mktemp("reload"))
    yield Reloaded(running)
    assert running.terminate() == 0, running.output


@pytest.fixture
def shared(one_gateway: Reloaded) -> Reloaded:
    """A gateway that other tests have changed, on its first configuration again."""
    one_gateway.restore()
    return one_gateway


class Load:
    """Clients that ask again and again until told to stop; every outcome is counted."""

    def __init__(self, url: str, clients: int = 3, model: str = "claude-test") -> None:
        self.outcomes: Counter[str] = Counter()
        self._url, self._model = url, model
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, number: int) -> None:
        while not self._over.wait(0.03):  # the processors are for the gateway
            try:
                if number % 2:
                    with stream(self._url, {"model": self._model}) as answer:
                        answer.read()
                        outcome = f"{answer.status} {answer.seen[-1]['type']}"
                else:
                    found = post(self._url, payload(self._model))
                    outcome = f"{found.status} {found.json()['type']}"
                    if found.status != 200:
                        outcome += f" {found.body!r}"
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}"
            self.outcomes[outcome] += 1

    @property
    def total(self) -> int:
        return sum(self.outcomes.values())

    def check(self, least: int) -> None:
        assert set(self.outcomes) <= {"200 message", "200 message_stop"}, self.outcomes
        assert self.total >= least, self.outcomes


def answers(seen: Any) -> Any:
    return deltas([{"content": "a"}, {"content": "b"}]) if seen.body.get("stream") else completion({"content": "ab"})


def backends(config: Change, **changes: Any) -> Change:
    return {**config["backends"], **changes}


# -------------------------------------------------------------------------------------------------- what changes serves


def test_models_teams_keys_and_backends_come_and_go(shared: Reloaded, provider: OpenAIProvider) -> None:
    provider.always(answers)
    assert shared.ask("new-model") == 404
    plain = shared.config["backends"]["plain"]
    shared.change(
        models=[{"match": "new-model", "attempts": [{"backend": "later", "model": "m2"}]}, *shared.config["models"]],
        backends=backends(shared.config, later=plain),
        teams={"test": {"key": CLIENT_KEY}, "blue": {"key": "sk-blue", "models": ["new-model"]}})
    assert shared.ask("new-model") == 200
    assert provider.seen[-1].body["model"] == "m2"
    assert shared.ask("new-model", "sk-blue") == 200
    assert shared.ask("claude-test", "sk-blue") == 403
    shared.change(teams={"test": {"key": CLIENT_KEY}}, models=shared.config["models"][1:],
                    backends=backends(shared.config, plain={**plain, "key": "sk-another-provider-key"}))
    assert shared.ask("new-model", "sk-blue") == 401
    assert shared.ask("new-model") == 404
    assert shared.ask() == 200
    assert provider.seen[-1].headers["authorization"] == "Bearer sk-another-provider-key"
    assert PROVIDER_KEY not in shared.gateway.output


@pytest.mark.fault
def test_settings_of_a_running_gateway(reloaded: Reloaded, provider: OpenAIProvider) -> None:
    """Origins, bounds, times: what is in the listener, in the routes and in the workers."""
    provider.always(answers)
    page = {**ANTHROPIC, "origin": "https://app.example"}
    assert "access-control-allow-origin" not in post(reloaded.url, payload(), headers=page).headers
    reloaded.change(cors=["https://app.example"], limits={"body": 4000}, timeouts={"idle": 100, "stream_idle": 800})
    assert post(reloaded.url, payload(), headers=page).headers["access-control-allow-origin"] == "https://app.example"
    assert post(reloaded.url, payload(metadata={"user_id": "x" * 5000})).status == 413
    reloaded.change(limits={"body": 100_000})
    assert post(reloaded.url, payload(system="x" * 5000)).status == 200


@pytest.mark.fault
def test_another_address(reloaded: Reloaded, provider: OpenAIProvider, start_gateway: Callable[..., Gateway],
                         tmp_path: Path) -> None:
    """`--port` comes before the file, so this gateway is started without."""
    old, new = free_port(), free_port()
    gate = Gate()
    with started(reloaded.config | {"listen": f"127.0.0.1:{old}", "admin": f"127.0.0.1:{free_port()}"},
                 tmp_path) as moving:
        provider.script(deltas([{"content": "before "}, gate, {"content": "after"}]), text("there"))
        with stream(moving.url) as answer:
            answer.until("content_block_delta")
            moving.change(listen=f"127.0.0.1:{new}")
            assert post(f"http://127.0.0.1:{new}", payload()).status == 200
            with pytest.raises(ConnectionRefusedError):
                post(moving.url, payload())
            gate.open()
            answer.read()
            assert answer.text == "before after"


@contextlib.contextmanager
def started(config: Change, folder: Path) -> Iterator[Reloaded]:
    """A gateway without --port."""
    gateway = Gateway.__new__(Gateway)
    gateway.port = int(config["listen"].rpartition(":")[2])
    gateway.base_url = f"http://{config['listen']}"
    gateway.admin = config["admin"]
    gateway.config_file = folder / "moving.yaml"
    gateway.config_file.write_text(json.dumps(config))
    import sys

    from tests.e2e.gateway import READY, Process

    Process.__init__(gateway, "extproc up", [sys.executable, "-m", "extproc", "up", "--config",
                                             str(gateway.config_file)])
    try:
        gateway.wait_for_line(READY, 60)
        yield Reloaded(gateway)
    finally:
        gateway.terminate()


# ------------------------------------------------------------------------------------------------- what runs is not cut


def test_a_long_stream_outlives_a_change_of_everything(shared: Reloaded, provider: OpenAIProvider) -> None:
    """Its model, its backend, its team, bounds and times: all gone or different while it runs."""
    gate = Gate()
    provider.script(deltas([{"content": "before "}, gate, {"content": "after"}]), text("another"), text("other"))
    plain = shared.config["backends"]["plain"]
    with stream(shared.url) as answer:
        answer.until("content_block_delta")
        shared.change(
            teams={"other": {"key": "sk-other"}}, limits={"body": 50_000}, timeouts={"idle": 100, "connect": 3},
            backends={"plain": {**plain, "url": f"{provider.url}/", "provider": "openai"}},
            models=[{"match": "other", "attempts": [{"backend": "plain", "model": "gpt-5"}]}])
        assert shared.ask("other", "sk-other") == 200
        assert shared.ask() == 401
        shared.change(models=[{"match": "last", "attempts": [{"backend": "new", "model": "x"}]}],
                        backends={"new": plain}, cors=["*"])
        assert shared.ask("last", "sk-other") == 200
        gate.open()
        answer.read()
        assert answer.text == "before after"
    wait(lambda: shared.gateway.envoy_stat("cluster_manager.active_clusters") == ACTIVE_WITH_ONE_BACKEND,
         "what only the old configurations needed is gone", shared.gateway)
    provider.script(text("still"))
    assert shared.ask("last", "sk-other") == 200


ACTIVE_WITH_ONE_BACKEND = 6
"""Clusters: both workers together and each by itself, the limits, and a backend's hop and provider."""


@pytest.mark.parametrize("turns", [5, pytest.param(50, marks=pytest.mark.fault)])
@pytest.mark.fault
def test_changes_under_load_fail_no_request(reloaded: Reloaded, provider: OpenAIProvider, turns: int) -> None:
    """Each changes the rule and the backend that serve the load: another model's name, another base path, another
    key."""
    provider.always(answers)
    plain = reloaded.config["backends"]["plain"]
    rest = reloaded.config["models"][1:]
    with Load(reloaded.url) as load:
        for turn in range(turns):
            attempt = {"backend": "plain", "model": f"m{turn % 5}", "max_output_tokens": 1000 + turn}
            url = provider.url + "/" * (turn % 2)
            seen = load.total
            reloaded.change(models=[{"match": "claude-test", "attempts": [attempt]}, *rest],
                            backends=backends(reloaded.config, plain={**plain, "url": url, "key": f"sk-{turn:04d}"}))
            wait(lambda seen=seen: load.total > seen, "requests go on", reloaded.gateway)  # type: ignore[misc]
    load.check(least=turns)
    assert reloaded.metric('extproc_config_reload_total{result="applied"}') == f"{turns}.0"
    assert reloaded.ask() == 200
    assert provider.seen[-1].headers["authorization"] == f"Bearer sk-{turns - 1:04d}"


# -------------------------------------------------------------------------------------------------- what is wrong stays


def test_an_invalid_file_changes_nothing(shared: Reloaded, provider: OpenAIProvider) -> None:
    provider.always(answers)
    before = re.findall(r"extproc_config_info\{.*", metrics(shared))
    [generation] = generations(shared)
    shared.write("models: [{match: m, attempts: [{backend: nowhere, model: x}]}]\nbackends: {}\nlossy: perhaps\n")
    shared.until("the change is refused")
    wait(lambda: shared.said("lossy: ") > 0, "the errors of check", shared.gateway)
    assert shared.ask() == 200
    assert shared.metric('extproc_config_reload_total{result="refused"}') == "1.0"
    assert shared.metric("extproc_config_last_reload_successful") == "0.0"
    assert re.findall(r"extproc_config_info\{.*", metrics(shared)) == before
    # A worker that dies meanwhile comes back with what was accepted, not with the file.
    victim = shared.gateway.worker_pids()[0]
    os.kill(victim, signal.SIGKILL)
    wait(lambda: victim not in (pids := shared.gateway.worker_pids()) and len(pids) == 2, "two workers",
         shared.gateway)
    assert [shared.ask() for _ in range(6)] == [200] * 6
    shared.gateway.config_file.unlink()
    shared.until("the change is refused", 2)
    assert shared.ask() == 200
    assert generations(shared) == {generation}
    shared.change(lossy="reject")
    assert generations(shared) == {str(float(generation) + 1)}, \
        "both workers show it before the gateway says that it is in force"
    assert shared.metric("extproc_config_last_reload_successful") == "1.0"
    assert re.findall(r"extproc_config_info\{.*", metrics(shared)) != before


def generations(reloaded: Reloaded) -> set[str]:
    """What the worker that is furthest behind shows, and the one ahead of all."""
    return {reloaded.metric("extproc_config_generation"), reloaded.metric("extproc_config_generation_newest")}


def metrics(reloaded: Reloaded) -> str:
    return request(f"http://{reloaded.gateway.admin}", "GET", "/metrics").body.decode()


@pytest.mark.fault
def test_keys_that_need_a_restart_say_so(reloaded: Reloaded, provider: OpenAIProvider) -> None:
    provider.always(answers)
    reloaded.change(workers=1)
    assert reloaded.said("warning: workers: a change needs a restart; 2 stays") == 1
    assert len(reloaded.gateway.worker_pids()) == 2


@pytest.mark.fault
def test_sighup_reads_the_file_again(reloaded: Reloaded, provider: OpenAIProvider) -> None:
    provider.always(answers)
    reloaded.gateway.process.send_signal(signal.SIGHUP)
    reloaded.until("in force now")
    assert reloaded.ask() == 200


@pytest.mark.fault
def test_links_that_kubernetes_swaps(provider_server: OpenAIProvider, provider: OpenAIProvider,
                                     tmp_path: Path) -> None:
    """A mounted ConfigMap: the file is a link into `..data`, which is a link that is replaced."""
    provider.always(answers)
    address = f"127.0.0.1:{free_port()}"
    config = configuration(provider_server.url, listen=address, workers=1)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        models = [{"match": f"model-{name}", "attempts": [{"backend": "plain", "model": "m"}]}]
        (tmp_path / name / "moving.yaml").write_text(json.dumps({**config, "models": models}))
    (tmp_path / "..data").symlink_to("one")
    with started_from_links(config, tmp_path) as mounted:
        assert mounted.ask("model-one") == 200
        (tmp_path / "..data_tmp").symlink_to("two")
        (tmp_path / "..data_tmp").replace(tmp_path / "..data")
        mounted.until("in force now")
        assert mounted.ask("model-two") == 200
        assert mounted.ask("model-one") == 404


@contextlib.contextmanager
def started_from_links(config: Change, folder: Path) -> Iterator[Reloaded]:
    class Linked(type(folder)):  # type: ignore[misc]
        """Leaves the file as it is."""

        def write_text(self, *_: Any, **__: Any) -> int:
            return 0

    place = Linked(folder / "mount")
    (folder / "mount").mkdir()
    (folder / "mount" / "moving.yaml").symlink_to("../..data/moving.yaml")
    with started(config, place) as running:
        yield running


# -------------------------------------------------------------------------------------------------------- new processes


@pytest.mark.fault
def test_workers_are_replaced_under_load(reloaded: Reloaded, provider: OpenAIProvider) -> None:
    """SIGUSR1: every worker gets a successor; a stream that runs on an old one is finished there."""
    gate = Gate()
    held = deltas([{"content": "before "}, gate, {"content": "after"}])
    provider.always(lambda seen: held if "hold" in str(seen.body.get("messages")) else answers(seen))
    old = set(reloaded.gateway.worker_pids())
    with stream(reloaded.url, {"messages": [{"role": "user", "content": "hold"}]}) as answer:
        answer.until("content_block_delta")
        with Load(reloaded.url) as load:
            for turn in range(1, 4):
                reloaded.gateway.process.send_signal(signal.SIGUSR1)
                reloaded.until("the workers are replaced", turn)
                seen = load.total
                wait(lambda seen=seen: load.total > seen + 30, "requests go on", reloaded.gateway)  # type: ignore[misc]
        load.check(least=90)
        reloaded.change(lossy="reject")  # while an old worker still runs
        gate.open()
        answer.read()
        assert answer.text == "before after"
    wait(lambda: not old & set(reloaded.gateway.worker_pids()), "the old workers are gone", reloaded.gateway)
    wait(lambda: len(reloaded.gateway.worker_pids()) == 2, "two workers", reloaded.gateway)
    assert reloaded.ask() == 200
