"""A strict stand-in for envoyproxy/ratelimit: its configuration file, its look-up of descriptors, its counting.

Written from what that service's source says (src/config/config_impl.go, src/redis/fixed_cache_impl.go,
src/limiter/base_limiter.go): unknown keys, empty keys, units and duplicates are refused; an exact value comes before
one that ends with `*`, and that before a key without a value; counters live under the start of their window and expire
with it; a descriptor's own `hits_addend` of 0 only looks. Counters are kept in memory or in a Redis.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import grpc
import yaml
from envoy_data_plane.envoy.service.ratelimit import v3 as wire

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_KEYS = {"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "name",
         "replaces", "shadow_mode", "detailed_metric"}


class ConfigProblem(Exception):  # noqa: N818 - says what is wrong
    """The service would not load this file."""


@dataclass
class RateLimit:
    requests_per_unit: int
    unit: str
    name: str = ""


@dataclass
class Node:
    limit: RateLimit | None = None
    children: dict[str, Node] = field(default_factory=dict)


@dataclass
class Limits:
    domain: str
    root: Node

    def find(self, entries: Sequence[tuple[str, str]]) -> RateLimit | None:
        """The limit of a descriptor; None for none."""
        node, found = self.root, None
        for index, (key, value) in enumerate(entries):
            exact = node.children.get(f"{key}_{value}")
            wild = next((child for name, child in node.children.items()
                         if name.endswith("*") and f"{key}_{value}".startswith(name[:-1])), None)
            following = exact or wild or node.children.get(key)
            if following is not None and following.limit is not None and index == len(entries) - 1:
                found = following.limit
            if following is None or not following.children:
                break
            node = following
        return found


def read_config(text: str) -> Limits:
    """The limits of a file. Raises ConfigProblem."""
    tree = yaml.safe_load(text)
    if not isinstance(tree, dict):
        raise ConfigProblem("not a mapping")
    _check_keys(tree)
    if not isinstance(tree.get("domain"), str) or not tree["domain"]:
        raise ConfigProblem("config file cannot have empty domain")
    return Limits(tree["domain"], Node(children=_children(tree.get("descriptors") or [])))


def _check_keys(tree: dict[Any, Any]) -> None:
    for key, value in tree.items():
        if key not in _KEYS:
            raise ConfigProblem(f"unknown key {key!r}")
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                _check_keys(one)
            elif isinstance(value, list):
                raise ConfigProblem("a list of other than mappings")


def _children(descriptors: list[dict[str, Any]]) -> dict[str, Node]:
    made: dict[str, Node] = {}
    for one in descriptors:
        key, value = one.get("key", ""), one.get("value", "")
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigProblem("key and value must be text")
        if not key:
            raise ConfigProblem("descriptor has empty key")
        name = f"{key}_{value}" if value else key
        if name in made:
            raise ConfigProblem(f"duplicate descriptor composite key {name!r}")
        made[name] = Node(_limit(one["rate_limit"]) if "rate_limit" in one else None,
                          _children(one.get("descriptors") or []))
    return made


def _limit(one: dict[str, Any]) -> RateLimit:
    if one.get("unit", "").lower() not in SECONDS:
        raise ConfigProblem(f"invalid rate limit unit {one.get('unit')!r}")
    number = one.get("requests_per_unit")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2 ** 32:
        raise ConfigProblem("requests_per_unit must be a number of 32 bits")
    return RateLimit(number, one["unit"].lower(), one.get("name", ""))


# ------------------------------------------------------------------------------------------------------------ counting


class Memory:
    """Counters in this process."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}

    def add(self, key: str, hits: int, seconds: int) -> int:
        self.counters[key] = self.counters.get(key, 0) + hits
        return self.counters[key]


class Redis:
    """Counters in a Redis server, by INCRBY and EXPIRE in its own protocol."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), 5)
        self._file = self._socket.makefile("rb")

    def add(self, key: str, hits: int, seconds: int) -> int:
        used = self.call("INCRBY", key, str(hits))
        self.call("EXPIRE", key, str(seconds))
        return used

    def call(self, *words: str) -> int:
        parts = [f"*{len(words)}\r\n".encode()]
        parts += [b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode()) for word in words]
        self._socket.sendall(b"".join(parts))
        answer = self._file.readline()
        if not answer.startswith(b":"):
            raise ConfigProblem(f"redis said {answer!r}")
        return int(answer[1:])

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@dataclass
class StandIn:
    """The service. `seen` lists the entries and hits of every descriptor."""

    limits: Limits
    store: Memory | Redis = field(default_factory=Memory)
    clock: Callable[[], float] = time.time
    seen: list[tuple[list[tuple[str, str]], int]] = field(default_factory=list)

    def start(self, address: str = "127.0.0.1:0") -> StandIn:
        # One thread: the store is asked one thing after the other.
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        handler = grpc.unary_unary_rpc_method_handler(
            lambda request, _: self.answer(request), request_deserializer=wire.RateLimitRequest.parse,
            response_serializer=bytes)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "envoy.service.ratelimit.v3.RateLimitService", {"ShouldRateLimit": handler}),))
        self.port = self.server.add_insecure_port(address)
        self.server.start()
        return self

    def stop(self) -> None:
        self.server.stop(0.1).wait()

    def answer(self, request: wire.RateLimitRequest) -> wire.RateLimitResponse:
        statuses = [self._status(request, descriptor) for descriptor in request.descriptors]
        over = any(status.code is wire.RateLimitResponseCode.OVER_LIMIT for status in statuses)
        return wire.RateLimitResponse(
            statuses=statuses,
            overall_code=wire.RateLimitResponseCode.OVER_LIMIT if over else wire.RateLimitResponseCode.OK)

    def _status(self, request: wire.RateLimitRequest, descriptor: Any) -> wire.RateLimitResponseDescriptorStatus:
        entries = [(entry.key, entry.value) for entry in descriptor.entries]
        hits = max(1, request.hits_addend) if descriptor.hits_addend is None else descriptor.hits_addend
        self.seen.append((entries, hits))
        limit = self.limits.find(entries) if request.domain == self.limits.domain else None
        if limit is None:
            return wire.RateLimitResponseDescriptorStatus(code=wire.RateLimitResponseCode.OK)
        now, seconds = int(self.clock()), SECONDS[limit.unit]
        key = "_".join([request.domain, *(f"{key}_{value}" for key, value in entries), str(now // seconds * seconds)])
        used = self.store.add(key, hits, seconds)
        over = used > limit.requests_per_unit
        code = wire.RateLimitResponseCode.OVER_LIMIT if over else wire.RateLimitResponseCode.OK
        return wire.RateLimitResponseDescriptorStatus(
            code=code, limit_remaining=max(0, limit.requests_per_unit - used),
            current_limit=wire.RateLimitResponseRateLimit(
                name=limit.name, requests_per_unit=limit.requests_per_unit,
                unit=wire.RateLimitResponseRateLimitUnit[limit.unit.upper()]),
            duration_until_reset=timedelta(seconds=seconds - now % seconds))
