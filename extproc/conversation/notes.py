"""What a model is told in words, where a provider's API has no field for it or takes nothing empty.

The request encoders and the writers of dialects put these into the system text or into a message. There is one wording
for all of them, so that a failover to another provider says the same. What only one API needs stands in its module.
"""

from __future__ import annotations

NO_OUTPUT = "(no output)"
"""Stands for an empty tool result: an empty string is refused or puzzles the model."""

NO_SERVER_TOOLS = ("The tools of this request ({names}) are not available. Answer from what you know and say that "
                   "you could not use them.")
"""When a request offers nothing but tools that nobody here can run; a client's web search is such a request."""

ONE_CALL = "Call at most one tool in each answer, and wait for its result before you call another."
"""Where parallel calls cannot be forbidden."""

FINAL_NOTE = ("Give your final answer to the user now, from what this conversation holds. Call no tools. Do not "
              "mention tools, limits or missing results, and add no disclaimers.")
"""When a client asks for the final answer, unless the configuration has a note of its own (`events.final_note`)."""

CONTINUE = ("Continue your last message exactly where it ends. Write only what follows, without repeating any of it "
            "and without an introduction.")
"""To models that refuse a conversation which ends with their own turn."""
