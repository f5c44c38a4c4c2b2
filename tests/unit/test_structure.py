"""The rules that hold the tree together: who imports whom, what never stands in a file or a log."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import model
from agent.__main__ import COMMANDS

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "agent" / "plugin"
LONGEST_FILE = 450
LONGEST_README = 200
PRIVATE = {"persona", "instructions", "transcript", "text", "prompt", "phone_number", "caller"}
LOG_CALLS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def modules(folder: str) -> list[Path]:
    found = sorted((ROOT / folder).rglob("*.py"))
    return [path for path in found if PLUGIN not in path.parents]


def tracked() -> list[Path]:
    """Text files under version control, or all of the tree where there is none."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    for path in tracked():
        try:
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each absolute import as (module, names taken from it)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module, [alias.name for alias in node.names]


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_model_never_imports_agent() -> None:
    bad = [(p.name, m) for p in modules("model") for m, _ in imports(p) if within(m, "agent")]
    assert not bad


def test_agent_imports_only_what_model_exports() -> None:
    exported = set(model.__all__)
    bad = [
        f"{path.relative_to(ROOT)}: {module} {names}"
        for path in modules("agent")
        for module, names in imports(path)
        if within(module, "model") and (module != "model" or not set(names) <= exported)
    ]
    assert not bad, "\n".join(bad)


def test_plugin_stands_alone() -> None:
    bad = [
        f"{path.name}: {module}"
        for path in PLUGIN.rglob("*.py")
        for module, _ in imports(path)
        if within(module, "agent") or within(module, "model")
    ]
    assert not bad


def test_only_settings_read_variables() -> None:
    allowed = ROOT / "agent" / "settings.py"
    bad = [
        str(path.relative_to(ROOT))
        for path in modules("agent")
        if path != allowed and re.search(r"os\.environ[\[.]|os\.getenv", path.read_text("utf-8"))
    ]
    assert not bad


@pytest.mark.parametrize("folder", ["agent", "model", "tests"])
def test_every_module_says_what_it_is_for(folder: str) -> None:
    bad = [
        str(path.relative_to(ROOT))
        for path in modules(folder)
        if (source := path.read_text("utf-8")).strip() and not ast.get_docstring(ast.parse(source))
    ]
    assert not bad


def test_files_stay_small() -> None:
    sources = [p for p in tracked() if p.suffix in {".py", ".ts", ".tsx", ".css"}]
    lengths = {str(p.relative_to(ROOT)): len(p.read_text("utf-8").splitlines()) for p in sources}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def private_names(call: ast.Call) -> set[str]:
    """Names of private things among a logging call's arguments, f-strings included."""
    names = set()
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        for node in ast.walk(argument):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Attribute):
                names.add(node.attr)
    return names & PRIVATE


def test_logs_hold_no_private_data() -> None:
    bad = []
    for path in modules("agent") + modules("model"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LOG_CALLS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in {"log", "logger", "logging"}
                and private_names(node)
            ):
                bad.append(f"{path.relative_to(ROOT)}:{node.lineno}: {private_names(node)}")
    assert not bad, "\n".join(bad)


FORBIDDEN = {
    "a package registry's address": r"registry\.npm|pypi\.org|pythonhosted|proxy\.golang|index-url",
    "a path of one machine": r"(?<![\w.])/(?:root|work|home/\w+)/",
    "a download address in a lock file": r'"resolved": *"http',
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    bad = [
        f"{path}: {found.group()}"
        for path, text in texts()
        if path != Path(__file__).relative_to(ROOT) and (found := re.search(FORBIDDEN[what], text))
    ]
    assert not bad, "\n".join(bad)


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_is_short_and_its_generated_parts_are_current() -> None:
    spec = importlib.util.spec_from_file_location("readme", ROOT / "scripts" / "readme.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert len(readme().splitlines()) < LONGEST_README
    assert script.generated(readme()) == readme(), "run: .venv/bin/python scripts/readme.py"


def test_readme_names_only_what_exists() -> None:
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", readme())
    paths = re.findall(r"`((?:agent|model|tests|web|docs)/[\w./]+)`", readme())
    assert len(paths) > 10
    assert [name for name in links + paths if not (ROOT / name).exists()] == []


def test_readme_names_only_commands_that_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"make ([a-z-]+)", readme())) <= set(targets)
    assert set(re.findall(r"-m agent ([a-z]+)", readme())) <= set(COMMANDS)
