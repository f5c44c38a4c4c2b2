"""What every training of the recipe does: steps, learning rate, checkpoints, curves, time left.

A run can stop anywhere and goes on from its last stored step; where its losses draw by seed and
step alone, it ends as if it had never stopped. Knows nothing of what is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .progress import Curves, Progress
from .together import average, rank
from .whole import whole

SAVE_EVERY = 50
SHOW_EVERY = 20
CLIP = 1.0


def stored_step(folder: Path, name: str) -> int:
    """How far the training `name` has come; 0 before its first stored step."""
    path = folder / f"{name}.pt"
    return int(_stored(path)["step"]) if path.exists() else 0


def is_finished(folder: Path, name: str) -> bool:
    """The stored training `name` has come as far as it was to go."""
    state = _stored(folder / f"{name}.pt")
    return bool(state["step"] >= state["steps"])


def _stored(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, weights_only=True, mmap=True)
    return state


@dataclass
class Run:
    """One training: `modules` are stored by name, `loss` returns what `step` is to descend."""

    name: str
    folder: Path
    steps: int
    modules: Mapping[str, nn.Module]
    optimizer: torch.optim.Optimizer
    learning_rate: float
    loss: Callable[[int], tuple[Tensor, dict[str, float]]]
    after: Callable[[int], None] = lambda step: None
    warmup: int = 100

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.pt"

    @property
    def curves(self) -> Path:
        return self.folder / f"{self.name}.jsonl"

    def go(self) -> None:
        """Train from the stored step to the last one."""
        start = self._resume()
        first = rank() == 0
        curves = Curves(self.curves, start) if first else None
        progress = Progress(self.name, self.steps, start)
        sums: dict[str, float] = {}
        since = start
        for step in range(start, self.steps):
            self._set_rate(step)
            for key, value in self._descend(step).items():
                sums[key] = sums.get(key, 0.0) + value
            done = step + 1
            if curves is not None and (done % SHOW_EVERY == 0 or done == self.steps):
                figures = {key: value / (done - since) for key, value in sums.items()}
                curves.add(done, figures)
                progress.show(done, figures)
                sums, since = {}, done
            if first and (done % SAVE_EVERY == 0 or done == self.steps):
                self._save(done)

    def _descend(self, step: int) -> dict[str, float]:
        loss, figures = self.loss(step)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        weights = [w for group in self.optimizer.param_groups for w in group["params"]]
        average(w.grad for w in weights if w.grad is not None)
        nn.utils.clip_grad_norm_(weights, CLIP)
        self.optimizer.step()
        self.after(step)
        return figures

    def _set_rate(self, step: int) -> None:
        """Linear warm-up, then level, then down to a twentieth over the last 40 %."""
        rise = min(1.0, (step + 1) / self.warmup)
        fall = min(1.0, max(0.05, (self.steps - step) / (0.4 * self.steps)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * rise * fall

    def _save(self, done: int) -> None:
        state: dict[str, Any] = {name: m.state_dict() for name, m in self.modules.items()}
        state |= {"optimizer": self.optimizer.state_dict(), "step": done, "steps": self.steps}
        with whole(self.path) as part:
            torch.save(state, part)

    def _resume(self) -> int:
        if not self.path.exists():
            return 0
        state = torch.load(self.path, weights_only=True)
        for name, module in self.modules.items():
            module.load_state_dict(state[name])
        self.optimizer.load_state_dict(state["optimizer"])
        return int(state["step"])
