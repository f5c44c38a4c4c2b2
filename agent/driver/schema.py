"""Prints the JSON schema of `load-result.json`: `python -m agent.driver.schema`."""

from __future__ import annotations

import json

from agent.driver.report import LoadResult


def schema_text() -> str:
    """The schema as it stands in `docs/load-result.schema.json`."""
    return json.dumps(LoadResult.model_json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
