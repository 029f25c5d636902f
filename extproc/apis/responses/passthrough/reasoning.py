"""Encrypted reasoning in responses and requests that pass: the client gets it in the envelope that it gets from every
provider (`client.envelopes`), and the provider gets it back as it was.

So the reasoning of a conversation that moves between providers returns to its issuer, whichever path a request takes,
and no endpoint gets that of another one, which it would refuse.
"""

from __future__ import annotations

import msgspec

from extproc.apis.responses.client.envelopes import pack_thinking, unpack_thinking
from extproc.apis.responses.provider.signatures import own_reasoning, pack_reasoning
from extproc.apis.responses.wire_response import OutputItem
from extproc.apis.shared.json_fields import Fields, encode_fields, encode_raw, fields_of
from extproc.conversation.model import Thinking
from extproc.profiles.target import Target

_FIELD = "encrypted_content"

_item = msgspec.json.Decoder(OutputItem)
_string = msgspec.json.Decoder(str)


def wrap_reasoning(raw: msgspec.Raw, target: Target) -> msgspec.Raw:
    """An item of a response for the client; the same object for any other item."""
    try:
        item = _item.decode(raw)
    except msgspec.DecodeError:
        return raw
    content = item.encrypted_content
    members = fields_of(raw) if item.type == "reasoning" and isinstance(content, str) and content else None
    if members is None:
        return raw
    block = Thinking("\n\n".join(item.texts("summary", "summary_text")), signature=pack_reasoning(content, target))
    members[_FIELD] = encode_raw(pack_thinking(block))
    return msgspec.Raw(encode_fields(members))


def unwrap_reasoning(members: Fields, target: Target) -> bool:
    """Puts the provider's own content into a reasoning item of a request. False: this provider did not issue it."""
    content = members.get(_FIELD)
    try:
        block = unpack_thinking(_string.decode(content)) if content is not None else None
    except msgspec.DecodeError:
        return False
    own = None if block is None else own_reasoning(block, target)
    if own is None:
        return False
    members[_FIELD] = encode_raw(own)
    return True
