"""`make bench`: every benchmark of this folder, one after another; fails if one missed its ceiling.

A benchmark is a module with a ceiling in its docstring and exit code 1 when it is missed. They run in
processes of their own, so that none sees what another has warmed up.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
APART = {"__init__", "__main__", "soak"}  # the soak runs for as long as it is told to: `make soak`


def main() -> int:
    """Run all; 1 if any failed."""
    failed = []
    for name in sorted(path.stem for path in HERE.glob("*.py")):
        if name in APART:
            continue
        print(f"\n=== {name}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"{HERE.name}.{name}"], cwd=HERE.parent, check=False)
        if done.returncode != 0:
            failed.append(name)
    print(f"\nover their ceiling: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
