"""What the configuration file says about the edge's certificate and about providers that fail again and again, and in
which order equal attempts are made.

Part of the records in `extproc.config.records`, which import it; the reference page is generated from the docstrings.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec


class EdgeTls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """TLS for clients. Relative paths start at the configuration file's folder. Under `extproc up` files that
    change (replaced, written in place, or as Kubernetes swaps the links of a mounted secret) are read again, for new
    connections."""

    certificate: str
    """A file with the gateway's certificate and the intermediate ones after it (PEM)."""
    key: str
    """A file with the certificate's private key (PEM, without a passphrase)."""


class Ejection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a provider that fails is left out for a while. Only attempts that one of another backend follows leave it
    out: the last attempt always asks, so that a client never hears less than the provider's own error."""

    failures: int = 10
    """So many failures in a row put an address of a provider aside: answers of status 500 and above, connections that
    fail (each counts, and one that fails is tried twice) or break before an answer came."""
    time: float = 10
    """Seconds until it is asked again; each further time so much longer."""
    longest: float = 120
    """Most seconds."""


class Order(msgspec.Struct, frozen=True):
    """One order of a rule's attempts: the share of requests that take it (all shares add up to 1), and the attempts as
    indexes."""

    share: float
    attempts: tuple[int, ...]


MOST_ORDERS = 256
"""Each order is a route of Envoy's."""


def groups_of(weights: Sequence[int | None]) -> list[list[int]]:
    """The indexes of attempts that are equals, in failover order: neighbours that have a weight stand together, one
    without stands alone."""
    weighted = itertools.groupby(range(len(weights)), lambda index: -1 if weights[index] is not None else index)
    return [list(members) for _, members in weighted]


def orders_of(weights: Sequence[int | None]) -> tuple[Order, ...]:
    """Every order in which attempts of these weights are made. Of equals each comes first in the share of its weight;
    behind it the others follow, the heavier first."""
    choices = [[Order(_weight(weights, first) / sum(_weight(weights, one) for one in group),
                      (first, *sorted((one for one in group if one != first), key=lambda one: -_weight(weights, one))))
                for first in group] for group in groups_of(weights)]
    found = []
    for parts in itertools.product(*choices):
        share = 1.0
        for part in parts:
            share *= part.share
        found.append(Order(share, tuple(index for part in parts for index in part.attempts)))
    return tuple(found)


def count_orders(weights: Sequence[int | None]) -> int:
    """How many orders there are, without making them."""
    count = 1
    for group in groups_of(weights):
        count *= len(group)
    return count


def _weight(weights: Sequence[int | None], index: int) -> int:
    return weights[index] or 1
