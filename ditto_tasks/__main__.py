"""`python -m ditto_tasks` is the `ditto` program."""

from ditto_tasks.cli import main

main()
