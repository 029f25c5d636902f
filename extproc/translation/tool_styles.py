"""How tools are offered to the model of one exchange, and how its calls are read: by the settings and the client's
header.

`Translation` gets the style of a request from it (native tools, or tools written into the prompt), and the scanner for
the provider's decoder. The work is done in `dialects/`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extproc.bounds import Limits
from extproc.conversation.call_counts import MOST_BAD_CALLS, BadCall, Badness, CallTally
from extproc.conversation.duplicate_calls import DuplicateCallDetector
from extproc.conversation.model import Request, Tool, ToolChoice
from extproc.conversation.sequencer import BlockSequencer
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.dialects.call_writer import NativeArguments, Repair
from extproc.dialects.coercion import coerce_value, parameter, tool_shape
from extproc.dialects.registry import find_dialect, find_scan_plan
from extproc.dialects.scan_plan import ScanPlan
from extproc.dialects.scanner import Scanner
from extproc.dialects.writing import WRITABLE
from extproc.errors import BadRequest, Failure
from extproc.headers import TOOLS_HEADER
from extproc.profiles.target import Target
from extproc.translation.settings import Settings

_STYLES_OF_CLIENTS = ("off", "native", "prompted")
_BAD_REPAIRS: dict[str, Badness] = {
    "unreadable": "unreadable", "skipped_call": "unoffered", "dropped_call": "unreadable"}
"""Repairs of calls in text after which there is no call to run."""


def with_style(target: Target, style_of_client: str | None, limits: Limits) -> Target:
    """The target with the tool style that the header asks for, and the limit of that style. Raises `BadRequest`."""
    style = target.tool_style
    if style_of_client is not None:
        style = style_of_client.strip().lower()
        if style not in _STYLES_OF_CLIENTS:
            raise BadRequest(f"{TOOLS_HEADER}: {style_of_client[:40]!r} is not one of {', '.join(_STYLES_OF_CLIENTS)}")
    elif style not in WRITABLE:  # the usual case
        return target
    most = min(target.max_tools, limits.prompted_tools) if style in WRITABLE else target.max_tools
    return msgspec.structs.replace(target, tool_style=style, max_tools=most)


def restrict_tools(request: Request, target: Target, dropped: Dropped) -> None:
    """Removes the tools from `request` that the configuration does not permit, and a tool choice that depends on them.
    Names each in `dropped`."""
    if target.only_tools is None:
        return
    out = [tool.name for tool in request.tools if not target.permits_tool(tool.name)]
    request.tools = [tool for tool in request.tools if target.permits_tool(tool.name)]
    permitted = [tool for tool in request.server_tools
                 if target.permits_tool(tool.name) or target.permits_tool(tool.type)]
    out += [tool.name for tool in request.server_tools if tool not in permitted]
    request.server_tools = permitted
    for name in out:
        dropped.loss(f"tools.{name}")
    choice = request.tool_choice
    if choice is None or not out:
        return
    if choice.mode == "tool" and choice.tool in out:
        request.tool_choice = None
        dropped.loss("tool_choice")
    elif choice.allowed:
        allowed = tuple(name for name in choice.allowed if name not in out)
        request.tool_choice = ToolChoice(choice.mode, allowed=allowed) if allowed else ToolChoice("none")
        if not allowed:
            dropped.loss("tool_choice")
    elif choice.mode == "required" and not request.tools and not request.server_tools:
        request.tool_choice = None
        dropped.loss("tool_choice")


class CallReader:
    """Reads the calls of one response. Raises ValueError for an unknown dialect in the settings."""

    def __init__(self, settings: Settings) -> None:
        self._dialects = (settings.dialect,) if settings.dialect is not None else tuple(settings.read_dialects)
        """Dialects to look for; none: by style and model."""
        for name in self._dialects:
            find_dialect(name)
        self._reasoning_open = settings.reasoning_open
        self._arguments = settings.arguments
        self._limits = settings.limits
        self._one_call = settings.parallel_tool_calls == "enforce"
        self._drop_repeated = settings.duplicates == "drop"
        self._offered: Mapping[str, Tool] = {}
        self._scan_plan: ScanPlan | None = None
        self._scanner: Scanner | None = None
        self.tally = CallTally()
        """Counts of the calls."""
        self.repair_arguments: NativeArguments | None = None
        """Repairs or checks native calls; None: they are forwarded unchanged."""

    @property
    def needs_decoding(self) -> bool:
        """The configuration names dialects to read, or has calls checked: no response may be forwarded unread."""
        return (bool(self._dialects) or self._arguments in ("repair", "strict") or self._one_call
                or self._drop_repeated)

    def prepare(self, request: Request, target: Target, names: NameMap) -> None:
        """Plans from the request what to look for in the response."""
        wanted = request.tool_choice.mode if request.tool_choice is not None else "auto"
        self.tally.prompted = target.tool_style in WRITABLE
        # With `none`, text that looks like a call is an example that the user asked for; `off` offers nothing.
        if (target.tool_choice or wanted) != "none" and target.tool_style != "off":
            self._offered = {names.to_provider.get(tool.name, tool.name): tool for tool in request.tools}
        opened = self._reasoning_open
        if opened is None and target.profile.splits_reasoning:
            opened = False
        self._scan_plan = find_scan_plan(target.model, style=target.tool_style, read=self._dialects,
                                   tools=bool(self._offered), reasoning_open=opened)
        if self._arguments in ("repair", "strict"):
            self.repair_arguments = NativeArguments({tool.name: tool for tool in request.tools}, self._arguments,
                                        self.tally.native)

    def scanner(self, sequencer: BlockSequencer) -> Scanner | None:
        """The scanner of the model's text; None: no calls are looked for."""
        sequencer.one_call = self._one_call
        sequencer.refuse_unoffered = self._arguments == "strict"
        if self._drop_repeated:
            sequencer.duplicates = DuplicateCallDetector(self._limits.tool_arguments, self._typed, drop_repeated=True)
        if self._scan_plan is not None:
            if self._scan_plan.reads_calls and not self._drop_repeated:
                sequencer.duplicates = DuplicateCallDetector(self._limits.held_back, self._typed)
            self._scanner = Scanner(self._scan_plan, sequencer, self._offered, mode=self._arguments or "repair",
                                    limits=self._limits, tally=self.tally)
        return self._scanner

    def _typed(self, name: str, arguments: dict[str, object]) -> dict[str, object]:
        tool = next((tool for tool in self._offered.values() if tool.name == name), None)
        if tool is None:
            return arguments
        shape = tool_shape(tool.schema)
        return {key: coerce_value(value, parameter(shape, key)) for key, value in arguments.items()}

    def close(self) -> None:
        """Frees the scanner. Its figures are gone then."""
        if self._scanner is not None:
            self._scanner.close()
            self._scanner = None

    @property
    def text_calls(self) -> int:
        """Tool calls that the model wrote as text."""
        return self._scanner.calls if self._scanner is not None else 0

    def bad_calls(self, failure: Failure | None) -> list[BadCall]:
        """The first calls that no client can run as they are. `failure`: of the response."""
        bad = list(self.tally.bad_native)
        for repair in self._scanner.repairs if self._scanner is not None else ():
            if (reason := _BAD_REPAIRS.get(repair.reason)) is not None:
                bad.append(BadCall.of(repair.tool, reason))
        if failure is not None and failure.tool is not None:
            bad.append(BadCall.of(failure.tool, "refused"))
        return bad[:MOST_BAD_CALLS]

    @property
    def repairs(self) -> list[Repair]:
        """Repairs of the arguments of calls."""
        read = self._scanner.repairs if self._scanner is not None else []
        return [*read, *self.repair_arguments.repairs] if self.repair_arguments is not None else read
