"""Tool arguments against JSON Schema. No reference leaves the schema: nothing is ever fetched."""

from __future__ import annotations

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # its wheel has no types
from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]  # as above
from referencing import Registry

from ditto_tasks.errors import InteractionError
from ditto_tasks.interaction.base import ToolError
from ditto_tasks.interaction.values import safe_text
from ditto_tasks.json_values import JsonObject, pointer


class ArgumentSchema:
    """The checked schema of one tool."""

    def __init__(self, schema: JsonObject) -> None:
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise InteractionError("INVALID_TOOL", "the tool's input schema is not a JSON Schema") from error
        self._validator = Draft202012Validator(schema, registry=Registry())

    def check(self, arguments: JsonObject) -> None:
        """Raise ToolError INVALID_ARGUMENTS with the path of the first fault; values are not shown."""
        try:
            error = next(iter(self._validator.iter_errors(arguments)), None)
        except Exception as problem:
            raise ToolError("INVALID_ARGUMENTS", "the arguments can't be checked") from problem
        if error is not None:
            path = pointer(*error.absolute_path) or "/"
            raise ToolError("INVALID_ARGUMENTS", safe_text(f"{path}: does not fit {error.validator}"))
