"""The first batch through the network of a file, before anything is counted of it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from ..data import Batches
from ..data.calls import take
from ..errors import AliveError
from .bounded import Bounded
from .onnx import OnnxNetwork


def try_first(path: Path, network: nn.Module, batches: Batches) -> tuple[str, ...]:
    """Run the first batch through the network of a file, and say how far it is from onnxruntime.

    What a program makes is counted, and leaves no trace: buffers and chance are as before.
    """
    if isinstance(network, OnnxNetwork):
        given = take(network, next(iter(batches)))
        worst = network.check(given.args, given.keywords)
        return (f"run in torch, operation by operation; outputs differ from onnxruntime's by at most {worst:.1g}",)
    if batches.length is None:
        return ()
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    try:
        with torch.no_grad(), torch.random.fork_rng():
            given = take(network, next(iter(batches)))
            with Bounded(path, [given.args, given.keywords]):
                network(*given.args, **given.keywords)
    except AliveError:
        raise
    except NotImplementedError:  # an older torch has no rehearsal of torch.cond
        pass
    except Exception as error:
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise AliveError(f"{path} cannot be run on these data: {said}", "Give data that fit it") from None
    for name, buffer in network.named_buffers():
        buffer.data.copy_(before[name])
    return ()
