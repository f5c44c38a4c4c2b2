"""What counts as text, whoever sends it. It knows neither the wire nor the settings."""

from __future__ import annotations


def is_text(value: str) -> bool:
    """False for lone surrogates, which JSON and command lines can carry and no tokenizer takes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
