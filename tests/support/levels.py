"""Which module stands on which level. A module imports its own level and lower ones only."""

import re

DOMAINS = "context|state|memory|infer|interaction|retrieval|pipelines|batch"

# the first pattern that matches the module's name (without `ditto_tasks.`) decides
LEVELS: tuple[tuple[int, str], ...] = (
    (0, r"errors"),
    (
        1,
        r"json_values|frozen_json|lazy_exports|canonical|cancellation|entry_limit|event_loop|http_exchange|sharding"
        r"|tenants"
        r"|belongings|bounded_http|keys|lines|lua_running|lua_source|presence|redis_replies|task_events|tracing"
        r"|settings(\..+)?",
    ),
    (2, r"models"),
    (3, rf"({DOMAINS})\.(models|values)|context\.(checks|inputs|policy)"),
    (4, rf"({DOMAINS})\.base"),
    (10, r"\w+\.tasks|(pipelines|batch)\..+"),
    (6, r"state\.\w+|\w+\.(stores|providers)(\.\w+)*"),
    (
        7,
        r"\w+\.(nodes|opening|task_store)|context\.nodes\.in_process|context|state|memory|infer|interaction|retrieval",
    ),
    (8, r"dependencies|embedded|extensions"),
    (9, r"nodes|serialization|task"),
    (
        10,
        r"admission|coordination|interruptions|open_telemetry|publishing|routing|sending|metrics(\..+)?|pipelines|batch|worker(\..+)?",
    ),
    (11, r"celery|node_task|result_backend"),
    (12, r"client(\..+)?"),
    (13, r"(cli|web|__main__)(\..+)?"),
    (5, rf"({DOMAINS})\.\w+(\.\w+)?"),
)
TASK_LEVEL = 10
TOP_LEVEL = 14  # the package itself, whose public names come from everywhere


def level_of(module: str) -> int | None:
    """The level of a module of this package; None if the table does not know it."""
    if "." not in module:
        return TOP_LEVEL
    name = module.partition(".")[2]
    return next((level for level, pattern in LEVELS if re.fullmatch(pattern, name)), None)
