"""The hooks of a model, to see that none was left behind."""

from __future__ import annotations

from typing import Any

from torch import nn

from alive.taps import bare


def hooks_of(model: nn.Module) -> list[dict[str, Any]]:
    return [
        {key: dict(value) for key, value in vars(module).items() if "hook" in key and isinstance(value, dict)}
        for module in bare(model).modules()
    ]
