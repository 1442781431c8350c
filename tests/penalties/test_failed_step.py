"""A step that fails between the forward pass and penalty(): told, and dropped by forget()."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

from alive import AliveError, Jumpstart


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))


BATCHES = torch.randn(2, 8, 2, generator=torch.Generator().manual_seed(1))


def failed(net: nn.Module, x: torch.Tensor, how: str) -> object:
    """A step whose loss raises, with its output in a variable or not."""
    try:
        if how == "in a function":
            return (net(x) @ torch.ones(3, 3)).sum()
        out = net(x)
        half = out.square() if how == "half a loss" else out
        raise ValueError("targets of another shape")
    except (RuntimeError, ValueError):
        return (out, half) if how == "held by the caller" else None


@pytest.mark.parametrize("how", ["in a variable", "half a loss", "in a function"])
@pytest.mark.parametrize("wrap", [lambda out: out, lambda out: {"logits": out}], ids=["tensor", "dict"])
def test_a_pass_of_a_failed_step_is_told_and_forgotten(how, wrap) -> None:
    net = model()
    with Jumpstart(net) as keep:
        net(BATCHES[1])
        clean = keep.penalty().item()
        failed(net, BATCHES[0], how)
        out = net(BATCHES[1])
        with pytest.warns(UserWarning, match=r"nobody holds any more.*forget\(\)"):
            assert keep.penalty().item() != clean
        failed(net, BATCHES[0], how)
        keep.forget()
        out = net(BATCHES[1])
        assert keep.penalty().item() == clean
        del out


def test_several_passes_of_one_step_are_nothing_to_warn_of() -> None:
    net = model()
    target = torch.zeros(8, 1)
    with warnings.catch_warnings(), Jumpstart(net) as keep:
        warnings.simplefilter("error")
        loss = sum(nn.functional.mse_loss(net(x), target) for x in BATCHES)  # outputs live in the loss alone
        (loss + keep.penalty()).backward()
        one, two = net(BATCHES[0]), net(BATCHES[1])
        (one - two).sum().backward(inputs=[net[0].weight], retain_graph=True)
        keep.penalty().backward()
        for x in BATCHES:  # for the penalty alone
            net(x)
        keep.penalty().backward()
        for x in BATCHES:
            out = net(x)
            (out.sum() + keep.penalty()).backward()


class Holder:
    """What people copy: a trainer with model and keep."""

    def __init__(self) -> None:
        self.model = model()
        self.keep = Jumpstart(self.model)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("passes", [0, 1])
def test_a_copy_is_attached_to_nothing_and_says_so(copied, passes: int) -> None:
    mine = Holder()
    outs = [mine.model(x) for x in BATCHES[:passes]]
    theirs = copied(mine)
    theirs.model(BATCHES[0])
    with pytest.raises(AliveError, match="is a copy, which is attached to no model"):
        theirs.keep.penalty()
    if not outs:
        outs = [mine.model(BATCHES[0])]
    assert mine.keep.penalty().item() > 0
    with Jumpstart(theirs.model) as keep:
        theirs.model(BATCHES[0])
        keep.penalty()
