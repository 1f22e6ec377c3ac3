"""`make soak`: minutes of kills, freezes, cuts and restarts, then every caller's word against the record.

Ceiling: lost, doubled, disordered, unheard, contradictions and broken versions are all 0.

The history of each scope is read from the server's append-only file (appendfsync always, never
rewritten), so that no worker testifies for itself. Workers' clocks are set apart by shifting
`time.time` in each worker process; the server's clock cannot be shifted without root.
"""

import argparse
import sys
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.soak import Plan, Soak, main_log

FULL = Plan(
    mutations=20_000,
    kills=50,
    freezes=10,
    warm_restarts=6,
    scalings=3,
    cuts=6,
    server_restarts=4,
    hot_scopes=40,
    cold_scopes=400,
)
SHORT = Plan()


def main() -> int:
    """Run the plan that the arguments describe; 1 if a promise was broken."""
    plan = _plan(sys.argv[1:])
    main_log(f"plan: {plan}")
    report = Soak(plan, main_log).run()
    print("\n".join(report.lines()))
    return 0 if report.verdict.is_clean() else 1


def _plan(arguments: list[str]) -> Plan:
    parser = argparse.ArgumentParser(
        description="Every field of the plan can be given; the rest is the full form's."
    )
    parser.add_argument("--full", action="store_true", help="the full form, which is the default")
    parser.add_argument("--short", action="store_true", help="the form that `make test` runs")
    for field in fields(Plan):
        kind = Path if field.name == "logs" else type(getattr(FULL, field.name))
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind)
    given = vars(parser.parse_args(arguments))
    base = SHORT if given.pop("short") else FULL
    given.pop("full")
    return Plan(
        **{field.name: _chosen(given[field.name], getattr(base, field.name)) for field in fields(Plan)}
    )


def _chosen(given: object, default: object) -> object:
    return default if given is None else given


if __name__ == "__main__":
    sys.exit(main())
