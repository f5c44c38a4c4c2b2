"""Writes the generated parts of README.md: the settings table and the tree of folders.

`python scripts/readme.py` rewrites them in place; a test demands that nothing would change.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"

FOLDERS = {
    ".ci": "what must pass before a change goes in",
    "agent": "calls and transports: rooms, telephones, websockets, the command line",
    "agent/plugin": "the distribution `livekit-plugins-personaplex`, which imports nothing of ours",
    "deploy": "container image, and a compose example with telephones",
    "docs": "rooms, realtime API, models, scaling, telephones, the driver, the rules, figures",
    "scripts": "set-up steps of the Makefile; this file's generated parts",
    "tests": "mirrors the tree; each test names the rule that it holds",
    "tests/bench": "the benchmarks behind every number",
    "tests/browser": "the built page in headless Chromium",
    "tests/commands": "the command line as processes; none of it has to keep time",
    "tests/e2e": "real servers, real worker, real engine, on loopback",
    "tests/fakes": "echo engine, scripted engine, virtual clock",
    "tests/parity": "token for token against the reference implementation",
    "tests/unit": "every part on its own",
    "web": "the page: TypeScript, React, livekit-client",
}
"""What folders are for whose `__init__.py` does not say it."""
LEFT_OUT = {"agent/plugin/livekit", "web/src", "web/tests"}


def tracked_folders() -> list[str]:
    """The first two levels, without those inside a distribution or the page."""
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    parents = {str(parent) for name in names for parent in Path(name).parents} - {"."}
    kept = [name for name in parents if name.count("/") <= 1]
    return sorted(name for name in kept if not any(name.startswith(out) for out in LEFT_OUT))


def described(folder: str) -> str:
    if folder in FOLDERS:
        return FOLDERS[folder]
    source = ROOT / folder / "__init__.py"
    text = ast.get_docstring(ast.parse(source.read_text("utf-8"))) if source.is_file() else None
    return text.splitlines()[0].rstrip(".") if text else ""


def tree() -> str:
    lines = []
    for folder in tracked_folders():
        name = "  " * folder.count("/") + folder.split("/")[-1] + "/"
        lines.append(f"{name:<16}{described(folder)}".rstrip())
    return "\n".join(["```", *lines, "```"])


def settings_table() -> str:
    sys.path.insert(0, str(ROOT))
    from agent.settings import markdown_table

    return markdown_table()


def with_part(text: str, name: str, content: str) -> str:
    """`text` with what stands between the markers of `name` replaced."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    return f"{before}{begin}\n{content}\n{end}{after}"


def generated(text: str) -> str:
    return with_part(with_part(text, "settings", settings_table()), "tree", tree())


if __name__ == "__main__":
    README.write_text(generated(README.read_text("utf-8")), "utf-8")
