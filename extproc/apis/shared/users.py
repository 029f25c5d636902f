"""The id of an end user in the form that OpenAI takes.

Clients send whole JSON texts as an id, longer than the permitted 64 characters. Claude Code's id also names its
session, in one of two forms: `user_HASH_account_UUID_session_UUID`, or a JSON object with `session_id`. A user must be
the same in all sessions, a cache key should be that of one session.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

_LEGAL_USER = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SESSION = re.compile(r"_session_[0-9a-zA-Z-]+$")
_members: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def legal_user(user: str) -> str:
    """The id itself where every server takes it, else a hash of it."""
    return user if _LEGAL_USER.fullmatch(user) else hashed(user)


def hashed(text: str) -> str:
    """32 hex digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def without_session(user: str) -> str:
    """The id without the session in it."""
    if not user.startswith("{"):
        return _SESSION.sub("", user)
    try:
        members = _members.decode(user)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return user
    members.pop("session_id", None)
    return msgspec.json.encode(members).decode()
