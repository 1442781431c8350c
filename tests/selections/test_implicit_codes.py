"""Codes that no table holds, of finite scalar and lookup-free quantisation, against the indices counted by hand."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import alive
from alive.taps import Selects

package = pytest.importorskip("vector_quantize_pytorch")
FSQ, LFQ, ResidualFSQ, ResidualLFQ = package.FSQ, package.LFQ, package.ResidualFSQ, package.ResidualLFQ
WIDTH, DEAD = 8, 1


class Quantised(nn.Module):
    """An encoder with a ReLU, a quantiser and a decoder; `ids` is what the quantiser says it chose."""

    def __init__(self, quantiser: nn.Module, *, images: bool = False) -> None:
        super().__init__()
        layer: Any = nn.Linear if not images else lambda a, b: nn.Conv2d(a, b, 1)
        self.encode, self.decode = nn.Sequential(layer(WIDTH, 16), nn.ReLU(), layer(16, WIDTH)), layer(WIDTH, 3)
        self.quantise, self.ids = quantiser, torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        q, self.ids, *_ = self.quantise(3 * self.encode(x))
        return self.decode(q)


class Derived(FSQ):  # type: ignore[misc, valid-type]
    """One with a forward of its own, which returns another tensor of integers."""

    def forward(self, z: Tensor) -> Any:
        q, ids = super().forward(z)
        return q, ids * 0


class Named(FSQ):  # type: ignore[misc, valid-type]
    """One with the forward of the package."""


QUANTISERS: dict[str, tuple[Any, int, int]] = {  # how it is built, codes in a codebook, codebooks of a layer
    "four levels": (lambda: FSQ([8, 5, 5, 5], dim=WIDTH), 1000, 1),
    "two levels": (lambda: FSQ([3, 3], dim=WIDTH), 9, 1),
    "its column kept": (lambda: FSQ([3, 3], dim=WIDTH, keep_num_codebooks_dim=True), 9, 1),
    "symmetric": (lambda: FSQ([2, 4], dim=WIDTH, preserve_symmetry=True), 8, 1),
    "two codebooks": (lambda: FSQ([3, 4], num_codebooks=2, dim=WIDTH), 12, 2),
    "derived": (lambda: Named([5, 3], dim=WIDTH), 15, 1),
    "no lookup": (lambda: LFQ(codebook_size=64, dim=WIDTH), 64, 1),
    "no lookup, by dim": (lambda: LFQ(dim=WIDTH), 256, 1),
    "no lookup, two codebooks": (lambda: LFQ(codebook_size=16, dim=WIDTH, num_codebooks=2), 16, 2),
}
RESIDUAL: dict[str, tuple[Any, int]] = {
    "finite": (lambda: ResidualFSQ(levels=[3, 3], num_quantizers=2, dim=WIDTH), 9),
    "no lookup": (lambda: ResidualLFQ(codebook_size=32, num_quantizers=2, dim=WIDTH), 32),
}


def batches(*shape: int) -> list[Tensor]:
    """Three batches of sequences or images, the last one smaller."""
    torch.manual_seed(3)
    return [torch.randn(n, *shape) for n in (6, 6, 4)]


def codes(census: Any) -> list[Any]:
    return [layer for layer in census.layers if layer.noun == "code"]


def used(layer: Any) -> list[int]:
    return [number for number, state in enumerate(layer.states.tolist()) if state != DEAD]


def by_hand(model: nn.Module, data: list[Tensor]) -> Tensor:
    """The indices of all batches, in a column for each codebook."""
    return torch.cat([(model(x), model.ids)[1].flatten(0, model.ids.ndim - 2) for x in data])


@pytest.mark.parametrize("images", [False, True], ids=["sequences", "images"])
@pytest.mark.parametrize("name", QUANTISERS)
def test_codes_that_no_table_holds_are_counted(name: str, images: bool) -> None:
    build, count, books = QUANTISERS[name]
    torch.manual_seed(0)
    model, data = Quantised(build(), images=images).eval(), batches(*((WIDTH, 4, 3) if images else (5, WIDTH)))
    each = torch.cat([(model(x), model.ids)[1].reshape(-1, books) for x in data])
    told = [code + count * k for k in range(books) for code in each[:, k].unique().tolist()]
    census = alive.census(model, data)
    (layer,) = codes(census)
    assert (used(layer), layer.units.total, layer.units.dead) == (told, count * books, count * books - len(told))
    assert (layer.points.total, layer.unknown, census.unseen) == (0, (), ())
    assert 1 < len(told) < count * books or count < 20
    plain = alive.census(model.encode, data).layers[0]
    assert torch.equal(census.layers[0].states, plain.states)
    assert census.layers[0].points == plain.points


@pytest.mark.parametrize("name", RESIDUAL)
def test_each_residual_quantiser_has_codes_of_its_own(name: str) -> None:
    build, count = RESIDUAL[name]
    torch.manual_seed(1)
    model, data = Quantised(build()).eval(), batches(5, WIDTH)
    ids, census = by_hand(model, data), alive.census(model, data)
    assert [used(layer) for layer in codes(census)] == [ids[:, k].unique().tolist() for k in range(2)]
    assert [layer.units.total for layer in codes(census)] == [count, count]
    assert [layer.name for layer in codes(census)] == ["quantise.layers.0", "quantise.layers.1"]


def test_a_code_that_is_always_used_is_linear() -> None:
    model, data = Quantised(FSQ([3, 3], dim=WIDTH)).eval(), batches(5, WIDTH)
    nn.init.zeros_(model.quantise.project_in.weight)
    nn.init.zeros_(model.quantise.project_in.bias)
    (layer,) = codes(alive.census(model, data))
    assert (used(layer), layer.units.dead, layer.units.linear) == ([4], 8, 1)


def test_many_codes_take_little_room() -> None:
    model = Quantised(LFQ(codebook_size=2**17, dim=WIDTH)).eval()  # a mask of all would be 2**17 times 2**16 places
    data = torch.randn(2**8, 2**8, WIDTH)
    (layer,) = codes(alive.census(model, data))
    model(data)
    assert used(layer) == model.ids.unique().tolist()


@pytest.mark.parametrize("quantiser", [FSQ([3, 3], dim=WIDTH, return_indices=False), Derived([3, 3], dim=WIDTH)])
def test_codes_whose_indices_are_not_returned_are_told(quantiser: nn.Module) -> None:
    model, data = Quantised(quantiser).eval(), batches(5, WIDTH)
    census = alive.census(model, data)
    assert not codes(census)
    assert [told.name for told in census.unseen] == ["quantise"]
    assert "return_indices=True" in census.unseen[0].why


def test_what_the_user_declares_comes_first() -> None:
    model, data = Quantised(Derived([3, 3], dim=WIDTH)).eval(), batches(5, WIDTH)
    (layer,) = codes(alive.census(model, data, declared=alive.Declared(selects={Derived: Selects("code", count=9)})))
    assert (used(layer), layer.units.total) == ([0], 9)


@pytest.mark.parametrize("training", [False, True])
def test_the_penalty_says_once_that_codes_have_no_scores(training: bool) -> None:
    torch.manual_seed(0)
    model, data = Quantised(FSQ([3, 3], dim=WIDTH)), batches(5, WIDTH)
    model.train(training)
    alone = copy.deepcopy(model.encode)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with alive.Jumpstart(model, 1.0) as keep, alive.Jumpstart(alone.train(training), 1.0) as known:
            for x in data:
                model(x)
                penalty = keep.penalty()
                alone(x)
                assert torch.equal(penalty, known.penalty())
    told = [str(w.message) for w in said if not str(w.message).startswith("penalty() is 0")]
    assert told == ["quantise is not penalised: it shows no scores"] * training
