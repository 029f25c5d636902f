"""Signatures of a provider, embedded in fields that every client sends back.

Some providers want an opaque signature back with a tool call (Gemini) or with a text. Clients drop unknown fields, but
all of them echo the id of a call, and the signature of a thinking block if their API has one. So the signature is
embedded there: in an id in the alphabet of ids, in a thinking block as plain text. The client APIs embed and extract
it; providers see short ids with the signature beside them. Nothing is stored.

The form of an id: `ID` `_xs1_` `ORIGIN` (4) `CHECK` (4) `KIND` (1) `DATA`. If a client cuts the id off, the check is
wrong: the signature is lost, but the id is still the same in the call and in its result. The form of a text:
`xs1.` `ORIGIN` `.` `CHECK` `.` `VALUE`.
"""

from __future__ import annotations

import base64
import binascii
import re
from hashlib import blake2b

from extproc.conversation.model import Signature

MARK = "_xs1_"
"""Separates an id from its signature. No minted id and no accepted id of a provider contains it."""
_TEXT_MARK = "xs1."
_ORIGIN = 4
_CHECK = 4
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ID_ALPHABET = re.compile(r"[A-Za-z0-9_-]+")
_TO_ID = str.maketrans("+/", "-_", "=")
_FROM_ID = str.maketrans("-_", "+/")


def origin_of(*parts: str) -> str:
    """Four characters that identify the issuer of a signature: its API, endpoint and model."""
    return _short_hash("\0".join(parts))


def embed_in_id(call_id: str, signature: Signature | None) -> str:
    """The id for the client, with the signature embedded; unchanged for None."""
    if signature is None:
        return call_id
    origin = signature.origin if len(signature.origin) == _ORIGIN else origin_of(signature.origin)
    data = _packed(signature.value)
    return f"{call_id}{MARK}{origin}{_short_hash(origin + data)}{data}"


def extract_from_id(call_id: str) -> tuple[str, Signature | None]:
    """The short id and the signature embedded in an id of a client; None if there is none or it is damaged."""
    if MARK not in call_id:
        return call_id, None
    short_id, _, embedded = call_id.partition(MARK)
    origin, check, data = embedded[:_ORIGIN], embedded[_ORIGIN:_ORIGIN + _CHECK], embedded[_ORIGIN + _CHECK:]
    value = _unpacked(data) if data and check == _short_hash(origin + data) else None
    return short_id, None if value is None else Signature(value, origin)


def embed_in_text(signature: Signature) -> str:
    """The signature as text, for the signature field of a thinking block in the client's API."""
    check = _short_hash(signature.origin + signature.value)
    return f"{_TEXT_MARK}{signature.origin}.{check}.{signature.value}"


def extract_from_text(text: str) -> Signature | None:
    """The signature embedded in a text; None for any other text, such as a signature of Anthropic. A damaged one has
    an origin that no issuer has, so every provider side drops it."""
    if not text.startswith(_TEXT_MARK):
        return None
    origin, _, rest = text[len(_TEXT_MARK):].partition(".")
    check, _, value = rest.partition(".")
    return Signature(value, origin if check == _short_hash(origin + value) else "")


def _packed(value: str) -> str:
    """The text in the alphabet of ids, after its kind: "b" for base64, with two characters replaced; "u" for text of
    legal characters; "t" for any other text."""
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
