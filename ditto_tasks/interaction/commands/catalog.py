"""Which command takes which options: only what is listed here, since some options write, run or hang."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ditto_tasks.json_values import JsonObject, JsonValue

MAX_PATHS = 64
_COUNT = r"[1-9][0-9]{0,3}"  # lines or levels: the output is bounded to 1,000 lines anyway


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command. ``options`` are regular expressions of whole arguments; paths come last, after ``--``."""

    name: str
    description: str
    options: tuple[str, ...] = ()
    takes_pattern: bool = False
    needs_paths: bool = False
    max_paths: int = MAX_PATHS
    # some commands say with this status that they found nothing, which is no failure
    quiet_status: int | None = None
    before_pattern: tuple[str, ...] = ()

    @property
    def schema(self) -> JsonObject:
        """The JSON Schema of the tool's arguments."""
        properties: dict[str, JsonValue] = {}
        required: list[JsonValue] = []
        if self.options:
            option: JsonObject = {"type": "string", "pattern": f"^(?:{'|'.join(self.options)})$"}
            properties["options"] = {"type": "array", "items": option, "maxItems": 16}
        if self.takes_pattern:
            properties["pattern"] = {"type": "string", "minLength": 1, "maxLength": 1_000}
            required.append("pattern")
        if self.max_paths:
            paths: JsonObject = {"type": "array", "items": {"type": "string"}, "maxItems": self.max_paths}
            properties["paths"] = paths | ({"minItems": 1} if self.needs_paths else {})
        if self.needs_paths:
            required.append("paths")
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


_GREP = ("-[EFGinvwxclLohHrs]+", f"-[ABCm]{_COUNT}")
_COMMANDS = (
    Command(
        name="grep",
        description="Search lines that match a pattern; -r for folders.",
        options=_GREP,
        takes_pattern=True,
        needs_paths=True,
        quiet_status=1,
        before_pattern=("-e",),
    ),
    Command(name="ls", description="List folders.", options=("-[1aAdFhilnrRsStU]+",)),
    Command(name="cat", description="Show files.", options=("-[bnsAET]+",), needs_paths=True),
    Command(
        name="find",
        description="Find files by name below folders; the pattern is a shell glob.",
        options=("-type=[fdl]", f"-maxdepth={_COUNT}", "-empty"),
        takes_pattern=True,
        needs_paths=True,
    ),
    Command(
        name="head",
        description="Show the first lines.",
        options=(f"-[nc]{_COUNT}", "-q"),
        needs_paths=True,
    ),
    Command(
        name="tail",
        description="Show the last lines.",
        options=(f"-[nc]{_COUNT}", "-q"),
        needs_paths=True,
    ),
    Command(name="wc", description="Count lines, words, bytes.", options=("-[lwcmL]+",), needs_paths=True),
    Command(
        name="sort",
        description="Sort the lines of files.",
        options=("-[bdfginrRuhV]+", f"-k{_COUNT}(?:,{_COUNT})?"),
        needs_paths=True,
    ),
    # a second path would be where uniq writes
    Command(
        name="uniq",
        description="Leave out repeated lines.",
        options=("-[cdDiu]+",),
        needs_paths=True,
        max_paths=1,
    ),
    Command(
        name="cut",
        description="Show columns of lines.",
        options=(r"-[bcf][0-9,-]{1,100}", r"-d[^\s]", "-s"),
        needs_paths=True,
    ),
    Command(name="stat", description="Show what is known of files.", options=("-t",), needs_paths=True),
    Command(name="file", description="Say what kind files are.", options=("-[bi]+",), needs_paths=True),
    Command(name="du", description="Show how much space is used.", options=("-[abchkms]+", f"-d{_COUNT}")),
    Command(name="pwd", description="Show the folder, which is always the workspace.", max_paths=0),
)

COMMANDS: Mapping[str, Command] = MappingProxyType({command.name: command for command in _COMMANDS})
