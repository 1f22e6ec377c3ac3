"""Work in a forked child of the test's process."""

import os
import warnings
from collections.abc import Callable


def in_a_fork(work: Callable[[], object]) -> int:
    """Run the work in a forked process; its exit code, 1 if it raised, or minus the signal that ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the child uses none
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
