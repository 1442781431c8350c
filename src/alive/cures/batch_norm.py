"""Layers whose units are normalised over the batch."""

from __future__ import annotations

from typing import Any

import alive

from .cure import Cure


class BatchNorm(Cure):
    """Batch norm between layers and activations."""

    words = "put batch norm behind every hidden layer"
    changes = "weights stay; every hidden layer is normalised, which is another function from the first step on"

    def applies(self, census: alive.Census) -> bool:
        return census.build is None or (bool(census.build.starts) and not census.build.norms)

    def model(self, model: Any) -> Any:
        return alive.nn.with_batch_norm(model)


CURES = {"batch norm": BatchNorm()}
