"""Fixtures of the tests that spoil checkpoints."""

from __future__ import annotations

from tests.fakes.spoilt import copy, edit_config, edit_tensors

__all__ = ["copy", "edit_config", "edit_tensors"]
