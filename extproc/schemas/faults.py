"""What a tool's schema says and no provider can be told: the places where a schema is none, or means nothing.

`{"type": "objekt"}`, a reference that leads nowhere, a string where a schema must stand: whatever is sent in its place
means something else. Request encoders that write schemas anew name these places as losses. A regular expression, an
alternative or a bound that is told in the description is none: the model still knows it. Called once per tool and
request; remembered by content.
"""

from __future__ import annotations

from extproc.conversation.model import Tool
from extproc.conversation.unsupported import Dropped
from extproc.schemas.cache import SHARED, Rewritten
from extproc.schemas.rewriting import MAX_DEPTH, OpenAISchema, PlacedVisitor, Schema, SchemaReferences

_MOST_PLACES = 20
"""Of one schema."""


def name_faults(tool: Tool, dropped: Dropped) -> None:
    """Names each place as a loss: `tools[get_weather].schema.properties.city.type`."""
    found = SHARED.get("faults", tool.schema, lambda size: Rewritten(None, faults=schema_faults(tool.schema)))
    for place in found.faults:
        dropped.loss(schema_place(tool.name, place))


def schema_place(tool: str, place: str = "") -> str:
    """How a place in the schema of this tool is named: the schema itself when `place` is empty."""
    return f"tools[{tool}].schema.{place}" if place else f"tools[{tool}].schema"


def schema_faults(schema: Schema) -> tuple[str, ...]:
    """The places, with the keys from the top joined by dots."""
    finder = _FaultFinder(schema)
    finder.visit(schema)
    return tuple(finder.faults)


class _FaultFinder(PlacedVisitor, OpenAISchema):
    """Runs the rules and keeps no result but the places."""

    def __init__(self, root: Schema) -> None:
        super().__init__()
        self.references = SchemaReferences(root)
        self.faults: list[str] = []

    def visit(self, node: object, depth: int = 0) -> Schema | bool:
        if node is not None and (not isinstance(node, (dict, bool)) or depth > MAX_DEPTH):
            self._note(self.place)
        return super().visit(node, depth)

    def fault(self, key: str) -> None:
        self._note([*self.place, key])

    def _note(self, place: list[str]) -> None:
        if len(self.faults) < _MOST_PLACES:
            self.faults.append(".".join(place))
