"""The wheel, installed as a stranger would install it: outside the checkout, with base dependencies only."""

import ast
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
UV = shutil.which("uv")

# Calls every public function of an example that needs no argument.
RUN_EXAMPLE = """
import importlib.util, inspect, sys
spec = importlib.util.spec_from_file_location("example", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["example"] = module
spec.loader.exec_module(module)
for name, value in list(vars(module).items()):
    own = inspect.isfunction(value) and value.__module__ == "example" and not name.startswith("_")
    if own and not inspect.signature(value).parameters:
        value()
        print("ran", name)
"""

pytestmark = pytest.mark.timeout(900)  # a fresh environment may have to be downloaded


@dataclass(frozen=True)
class Installation:
    """A virtual environment that holds the wheel, and a folder that is not the checkout."""

    folder: Path

    def run(self, program: str, *arguments: str) -> str:
        """Output of a program of the environment, which must succeed."""
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("DITTO_", "PYTHON"))
        }
        return run([str(self.folder / "env" / "bin" / program), *arguments], self.folder, clean)


def run(command: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """Output of a command; its error output when it fails."""
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel of this checkout in a fresh environment."""
    folder = tmp_path_factory.mktemp("wheel")
    python = str(folder / "env" / "bin" / "python")
    if UV is not None:
        run([UV, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)], folder)
        run([UV, "venv", "--quiet", "--python", sys.executable, "env"], folder)
        install = [UV, "pip", "install", "--quiet", "--python", python]
    else:
        run(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", ".", str(ROOT)],
            folder,
        )
        run([sys.executable, "-m", "venv", "--without-pip", "env"], folder)  # this one's pip can do it
        install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-compile", "--quiet"]
    run([*install, *map(str, folder.glob("*.whl"))], folder)
    return Installation(folder)


def test_the_programs_start(installation: Installation) -> None:
    """`ditto` and `celery ditto` show their commands, and the package is the installed one."""
    assert "doctor" in installation.run("ditto", "--help")
    assert "doctor" in installation.run("celery", "ditto", "--help")
    place = installation.run("python", "-c", "import ditto_tasks; print(ditto_tasks.__file__)")
    assert str(installation.folder) in place


def test_the_wheel_is_complete(installation: Installation) -> None:
    """Every file of the package is in the wheel, scripts and the typing marker included."""
    place = installation.run("python", "-c", "import ditto_tasks; print(ditto_tasks.__path__[0])").strip()
    names = {
        path.relative_to(ROOT / "ditto_tasks") for path in (ROOT / "ditto_tasks").rglob("*") if path.is_file()
    }
    wanted = {name for name in names if "__pycache__" not in name.parts}
    assert wanted - {path.relative_to(place) for path in Path(place).rglob("*")} == set()


def test_settings_and_application_load(installation: Installation) -> None:
    """With base dependencies alone the Celery application and its node table come up."""
    script = "from ditto_tasks.celery import create_app; print(len(create_app().nodes))"
    assert int(installation.run("python", "-c", script)) > 10


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_examples_run(installation: Installation, example: Path) -> None:
    """Every example runs against the installed package."""
    copy = installation.folder / example.name
    copy.write_text(example.read_text("utf-8"), "utf-8")
    assert "ran " in installation.run("python", "-c", RUN_EXAMPLE, str(copy))


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_examples_use_public_names_only(example: Path) -> None:
    """What an example imports from the package is in the `__all__` of the module it comes from."""
    imports = [
        node for node in ast.walk(ast.parse(example.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)
    ]
    private = [
        f"{node.module}.{alias.name}"
        for node in imports
        if (node.module or "").startswith("ditto_tasks")
        for alias in node.names
        if alias.name not in public_names(str(node.module))
    ]
    assert private == []


def public_names(module: str) -> set[str]:
    """`__all__` of a module; without one, the names that have no leading underscore."""
    loaded = import_module(module)
    return set(getattr(loaded, "__all__", (name for name in dir(loaded) if not name.startswith("_"))))
