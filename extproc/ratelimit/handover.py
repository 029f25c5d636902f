"""A new process takes over what the one before it has counted, while questions go on: none is lost, none counted twice.

The successor asks its predecessor, which answers with everything it knows, running requests included, and from then on
passes questions on to the successor. That holds them back until it has taken over what it was told. Where both have a
socket of their own, a link then leads new connections to the successor, and those to the predecessor end by themselves;
on a port, where only one can listen, the predecessor gives up the port at once, and its connections with it.

Only a successor that knows the token may ask: the parent process gives both the same one in their environment.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

import grpc
import msgspec

from extproc.headers import HANDOVER_TOKEN_METADATA
from extproc.ratelimit.counters import Counters, Kept, Running
from extproc.ratelimit.pb.rate_limit_service_pb2 import RateLimitRequest, RateLimitResponse
from extproc.ratelimit.service import SERVICE

TOKEN = "EXTPROC_LIMITS_TOKEN"
"""The variable that holds the token; without it nothing is handed over."""

_SERVICE = "extproc.Limits"
_PATIENCE = 5.0
"""Seconds for the whole state."""
_ONE_PATIENCE = 2.0
"""Seconds for one question that is passed on."""
_QUICK = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.min_reconnect_backoff_ms", 20),
          ("grpc.max_reconnect_backoff_ms", 50), ("grpc.use_local_subchannel_pool", 1)]


class Handed(msgspec.Struct):
    """What a process has counted."""

    kept: list[Kept]
    running: list[Running]

    @classmethod
    def of(cls, counters: Counters) -> Handed:
        """Everything."""
        return cls(counters.kept(), counters.still_running())

    def into(self, counters: Counters) -> None:
        """Goes on from there."""
        counters.restore(self.kept)
        counters.resume(self.running)


async def take_over(predecessor: str, own: str, token: str) -> Handed | None:
    """Asks the process at this address; None where there is none, or one that knows nothing of this."""
    async with grpc.aio.insecure_channel(predecessor, options=_QUICK) as channel:
        try:
            answer = await channel.unary_unary(f"/{_SERVICE}/HandOver")(
                own.encode(), metadata=[(HANDOVER_TOKEN_METADATA, token)], timeout=_PATIENCE)
            return msgspec.json.decode(answer, type=Handed)
        except (grpc.aio.AioRpcError, msgspec.MsgspecError):
            return None


def hand_over_handler(token: str, hand_over: Callable[[str], Handed]) -> grpc.GenericRpcHandler:
    """The other side. `hand_over` gets the successor's address and returns at once."""
    async def asked(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        told = dict(context.invocation_metadata() or ()).get(HANDOVER_TOKEN_METADATA, "")
        if not hmac.compare_digest(str(told).encode(), token.encode()):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not a successor")
        return msgspec.json.encode(hand_over(request.decode()))

    return grpc.method_handlers_generic_handler(_SERVICE, {"HandOver": grpc.unary_unary_rpc_method_handler(asked)})


class Successor:
    """Where questions are passed on to. `away` is called when nobody is there any more; it answers then."""

    def __init__(self, address: str, away: Callable[[RateLimitRequest], RateLimitResponse]) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=_QUICK)
        self._ask: Callable[..., Awaitable[RateLimitResponse]] = self._channel.unary_unary(
            f"/{SERVICE}/ShouldRateLimit", request_serializer=RateLimitRequest.SerializeToString,
            response_deserializer=RateLimitResponse.FromString)
        self._waits = not address.startswith("unix:")  # it gets the port in a moment
        self._away = away

    async def ask(self, request: RateLimitRequest) -> RateLimitResponse:
        """One question."""
        try:
            return await self._ask(request, timeout=_ONE_PATIENCE, wait_for_ready=self._waits)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return self._away(request)

    async def close(self) -> None:
        """The connection to it."""
        await self._channel.close()
