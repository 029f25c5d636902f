"""Notes to the model, for what a provider's API has no field for, and stand-ins for empty fields.

The request encoders of provider APIs and of dialects put these into the system text or into a message. All use one
wording, so that a failover to another provider says the same. Notes for only one API are in its own module.
"""

from __future__ import annotations

NO_OUTPUT = "(no output)"
"""Replaces an empty tool result: an empty string is refused or confuses the model."""

ERROR_PREFIX = "[tool error] "
"""Before the text of a result with `is_error`, where the format has no field for it."""

NO_SERVER_TOOLS = ("The tools of this request ({names}) are not available. Answer from what you know and say that "
                   "you could not use them.")
"""For a request that offers only tools that the provider cannot run, such as a client's web search."""

ONE_CALL = "Call at most one tool in each answer, and wait for its result before you call another."
"""For endpoints where parallel calls cannot be forbidden."""

FINAL_NOTE = ("Give your final answer to the user now, from what this conversation holds. Call no tools. Do not "
              "mention tools, limits or missing results, and add no disclaimers.")
"""For a client that asks for the final answer, unless the configuration has its own note (`events.final_note`)."""

CONTINUE = ("Continue your last message exactly where it ends. Write only what follows, without repeating any of it "
            "and without an introduction.")
"""For models that refuse a conversation that ends with their own turn."""
