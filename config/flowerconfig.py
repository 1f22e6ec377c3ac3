"""Flower's configuration: celery -A ditto_tasks flower --conf=config/flowerconfig.py

The credential comes from DITTO_FLOWER_BASIC_AUTH (user:password). Without it Flower does not start, unless
DITTO_FLOWER_WITHOUT_AUTH=true says that none is wanted.
It listens on the loopback address, changes nothing, and has no route that creates tasks or shows results.
Options after `flower` on the command line win over these.
"""

from ditto_tasks.cli.flower import flower_options

globals().update(flower_options())
