"""What a model reads and looks up on the way, caught by running its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, fx

from ...errors import AliveError
from ..shrink.calls import Call
from ..shrink.graph import Layer, Reading

Loss = Callable[[Any, Any], Tensor]


class Catch(fx.Interpreter):
    """Runs the graph, and keeps the values of one node."""

    def __init__(self, reading: Reading, node: fx.Node) -> None:
        super().__init__(reading.graph_module)
        self.node, self.value = node, torch.empty(0)

    def run_node(self, n: fx.Node) -> Any:
        """Run one step."""
        value = super().run_node(n)
        if n is self.node:
            self.value = value.detach()
        return value


def caught(reading: Reading, node: fx.Node, calls: Iterable[Call], size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The values of a node, the first output and the first input, over all points."""
    kept: list[tuple[Tensor, Tensor, Tensor]] = []
    catch = Catch(reading, node)
    with torch.no_grad():
        for call in calls:
            for start, part in enumerate(call.sized(size)):
                made = catch.run(*reading.fed(part))
                own = min(size, call.points - start * size)
                output = made[0] if isinstance(made, tuple | list) else made
                kept.append(tuple(_own(x, own, size) for x in (catch.value, output, part.leaves()[0])))  # type: ignore[arg-type]
    return tuple(torch.cat(each) for each in zip(*kept, strict=True))  # type: ignore[return-value]


def _own(x: Tensor, own: int, size: int) -> Tensor:
    """The part of what is there once only: calls are filled up to one size."""
    return x[: len(x) * own // size].cpu()


def losses_of(output: Tensor, given: Tensor, loss: Loss | None) -> Tensor:
    """The loss of every point [N]: the user's, else the squared error of what should be the input again."""
    if loss is not None:
        found = loss(output, given)
        if found.shape != (len(given),):
            raise AliveError(
                f"the loss gives {list(found.shape)} numbers for {len(given)} points", "Give one number a point"
            )
        return found
    if output.shape != given.shape:
        raise AliveError(
            f"the model makes {list(output.shape)} of inputs {list(given.shape)}, so that it is no autoencoder",
            "Give loss(output, inputs), one number a point",
        )
    return (output - given).flatten(1).square().mean(1)


def read_by(layer: Layer) -> fx.Node:
    """What a layer reads."""
    node = layer.node.args[0]
    assert isinstance(node, fx.Node)
    return node
