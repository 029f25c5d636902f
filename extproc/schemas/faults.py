"""The places of a tool's schema that cannot be sent to any provider: they are no schema, or mean nothing.

Examples: `{"type": "objekt"}`, a reference that leads nowhere, a string where a schema must be. Whatever is sent
instead means something else, so request encoders that re-encode schemas name these places as losses. What moves into
the description (a regular expression, an alternative, a bound) is no loss: the model still knows it. Called once per
tool and request; cached by content.
"""

from __future__ import annotations

from extproc.conversation.model import Tool
from extproc.conversation.unsupported import Dropped
from extproc.schemas.cache import SHARED_CACHE, Rewritten
from extproc.schemas.openai import OpenAISchema
from extproc.schemas.references import SchemaReferences
from extproc.schemas.visitor import MAX_DEPTH, PathVisitor, Schema

_MAX_FAULTS = 20
"""Places that are named per schema, at most."""


def name_faults(tool: Tool, dropped: Dropped) -> None:
    """Names each place as a loss: `tools[get_weather].schema.properties.city.type`."""
    found = SHARED_CACHE.get("faults", tool.schema, lambda size: Rewritten(None, faults=schema_faults(tool.schema)))
    for path in found.faults:
        dropped.loss(schema_place(tool.name, path))


def schema_place(tool: str, path: str = "") -> str:
    """The name of a place in the schema of a tool; of the schema itself if `path` is empty."""
    return f"tools[{tool}].schema.{path}" if path else f"tools[{tool}].schema"


def schema_faults(schema: Schema) -> tuple[str, ...]:
    """The paths of the places: keys from the top, joined by dots."""
    finder = _FaultFinder(schema)
    finder.visit(schema)
    return tuple(finder.faults)


class _FaultFinder(PathVisitor, OpenAISchema):
    """Applies the rules of the OpenAI format and keeps only the faults that they report."""

    def __init__(self, root: Schema) -> None:
        super().__init__()
        self.references = SchemaReferences(root)
        self.faults: list[str] = []

    def visit(self, node: object, depth: int = 0) -> Schema | bool:
        if node is not None and (not isinstance(node, (dict, bool)) or depth > MAX_DEPTH):
            self._add(self.path)
        return super().visit(node, depth)

    def report_fault(self, key: str) -> None:
        self._add([*self.path, key])

    def _add(self, path: list[str]) -> None:
        if len(self.faults) < _MAX_FAULTS:
            self.faults.append(".".join(path))
