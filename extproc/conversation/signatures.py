"""Signatures of a provider, carried by what every client sends back.

Some providers want an opaque signature back with a tool call (Gemini) or with a text. Clients drop fields they do not
know, but all of them echo the id of a call, and the signature of a thinking block where their API has one. So the
signature rides in there: in the id in the alphabet of ids, in a thinking block as plain text. The client APIs put it in
and take it out; providers only ever see short ids and the signature beside them. Nothing is stored.

The form of an id: `ID` `_xs1_` `ORIGIN` (4) `CHECK` (4) `KIND` (1) `DATA`. A client that cut the id off leaves a wrong
check: then the signature is gone, the id is still the same in the call and in its result.
"""

from __future__ import annotations

import base64
import binascii
import re
from hashlib import blake2b

from extproc.conversation.model import Signature

MARK = "_xs1_"
"""Stands between an id and what it carries; no id of our own or accepted from a provider holds it."""
_TEXT_MARK = "xs1."
_ORIGIN = 4
_CHECK = 4
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ID_ALPHABET = re.compile(r"[A-Za-z0-9_-]+")
_TO_ID = str.maketrans("+/", "-_", "=")
_FROM_ID = str.maketrans("-_", "+/")


def origin_of(*parts: str) -> str:
    """Four characters for who issues a signature: the API, the endpoint, the model."""
    return _short_hash("\0".join(parts))


def embed_in_id(call_id: str, signature: Signature | None) -> str:
    """The id for the client: itself, or with its signature on board."""
    if signature is None:
        return call_id
    origin = signature.origin if len(signature.origin) == _ORIGIN else origin_of(signature.origin)
    data = _packed(signature.value)
    return f"{call_id}{MARK}{origin}{_short_hash(origin + data)}{data}"


def extract_from_id(call_id: str) -> tuple[str, Signature | None]:
    """The id of a client in two: the short id, and the signature it carried, None for none or a damaged one."""
    if MARK not in call_id:
        return call_id, None
    plain, _, load = call_id.partition(MARK)
    origin, check, data = load[:_ORIGIN], load[_ORIGIN:_ORIGIN + _CHECK], load[_ORIGIN + _CHECK:]
    value = _unpacked(data) if data and check == _short_hash(origin + data) else None
    return plain, None if value is None else Signature(value, origin)


def embed_in_text(signature: Signature) -> str:
    """The signature as text, for the place that a client's API has for signatures of thinking."""
    return f"{_TEXT_MARK}{signature.origin}.{signature.value}"


def extract_from_text(text: str) -> Signature | None:
    """The signature in such a text; None when the text is something else (a signature of Anthropic)."""
    if not text.startswith(_TEXT_MARK):
        return None
    origin, dot, value = text[len(_TEXT_MARK):].partition(".")
    return Signature(value, origin) if dot else None


def _packed(value: str) -> str:
    """Any text in the alphabet of ids: kind "b" is ordinary base64, which only changes its letters, "u" text that fits
    as it is, "t" any other text."""
    if _BASE64.fullmatch(value):
        return "b" + value.translate(_TO_ID)
    if _ID_ALPHABET.fullmatch(value):
        return "u" + value
    encoded = base64.urlsafe_b64encode(value.encode("utf-8", "surrogatepass"))
    return "t" + encoded.decode().rstrip("=")


def _unpacked(data: str) -> str | None:
    kind, value = data[0], data[1:]
    if kind == "u":
        return value
    if kind == "b":
        return value.translate(_FROM_ID) + "=" * (-len(value) % 4)
    if kind != "t":
        return None
    try:
        return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode()
    except (binascii.Error, ValueError):
        return None


def _short_hash(text: str) -> str:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=3).digest()
    return base64.urlsafe_b64encode(digest).decode()
