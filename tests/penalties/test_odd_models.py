"""Models written in odd ways get the right penalty and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from kept import Kept, by_hand, close, grads
from torch import Tensor, nn

from alive.functional import AGGREGATES, Separation, aggregate, separation
from alive.penalties import Jumpstart


class Statement(Kept):
    """In place as a statement: the value returned is ignored."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.relu = nn.Linear(3, 6), nn.Linear(6, 2), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        self.keep(z)
        self.relu(z)
        return self.b(z)


class OnAView(Statement):
    """In place on a view of what the next layer reads."""

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        half = z[:, :3]
        self.keep(half)
        self.relu(half)
        return self.b(z)


class TwiceRead(Statement):
    """What the activation reads is read by others too."""

    def forward(self, x: Tensor) -> Tensor:
        z = self.a(x)
        self.keep(z)
        return self.b(F.relu(z) + 0.5 * z)


class Frozen(Statement):
    """The first layer does not learn."""

    def __init__(self) -> None:
        super().__init__()
        self.a.requires_grad_(False)
        self.c = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        z = self.b(self.relu(self.keep(self.a(x))))
        return self.c(self.relu(self.keep(z)))


@pytest.mark.twin
@pytest.mark.parametrize("kind", [Statement, OnAView, TwiceRead, Frozen])
def test_odd_ways_of_writing_give_the_right_gradients(kind: Callable[[], Kept]) -> None:
    model, x = kind(), torch.randn(7, 3)
    y, expected = by_hand(model, x, 1, {})
    (y.square().mean() + expected).backward()
    wanted = grads(model)
    with Jumpstart(model, 1.0) as keep:
        (model(x).square().mean() + keep.penalty()).backward()
    close(grads(model), wanted)


def test_full_backward_hooks_see_the_gradients_of_loss_and_penalty() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    seen: list[Tensor] = []
    handle = model[1].register_full_backward_hook(lambda module, into, out: seen.extend([into[0], out[0]]))
    x = torch.randn(6, 3)
    with Jumpstart(model, 1.0) as keep:
        y = model(x)
        (y.square().sum() + keep.penalty()).backward()
    handle.remove()
    z = model[0](x).detach().requires_grad_()
    h = F.relu(z)
    h.retain_grad()
    (model[2](h).square().sum() + aggregate([separation.slacks(z, Separation())])).backward()
    torch.testing.assert_close(seen[0], z.grad)
    torch.testing.assert_close(seen[1], h.grad)


def test_a_layer_without_rows_costs_nothing() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    with Jumpstart(model, 1.0) as keep:
        model(x := torch.randn(5, 3))
        expected = keep.penalty()
        model(x)
        model(x[:0])  # and tells nothing: a warning would be an error
        torch.testing.assert_close(keep.penalty(), expected)


@pytest.mark.parametrize("how", AGGREGATES)
def test_a_batch_without_points_costs_nothing(how: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
    with Jumpstart(model, 1.0, aggregate=how) as keep:
        model(torch.zeros(0, 3))
        assert keep.penalty().item() == 0.0


def test_a_model_that_returns_nothing_is_penalised_all_the_same() -> None:
    class Silent(Statement):
        def forward(self, x: Tensor) -> None:
            self.relu(self.a(x))

    model, x = Silent(), torch.randn(7, 3)
    with Jumpstart(model, 1.0) as keep:
        model(x)
        torch.testing.assert_close(keep.penalty(), aggregate([separation.slacks(model.a(x), Separation())]))


def test_a_map_without_a_batch_is_one_point_where_that_is_said() -> None:
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), torch.randn(3, 6, 6)
    with Jumpstart(model, 1.0, pos_margin=9.0, point_axis=None) as keep:
        model(x)
        found = keep.penalty()
        found.backward()
    wanted = aggregate([separation.slacks(model[0](x[None]), Separation(pos_margin=9.0))])
    torch.testing.assert_close(found, wanted)
    gradient = model[0].weight.grad.clone()
    model.zero_grad()
    wanted.backward()
    torch.testing.assert_close(gradient, model[0].weight.grad)


CLAMPS = [
    lambda z: z.clamp(min=0),
    lambda z: z.clamp_(min=0),
    lambda z: torch.clip(z, 0, 6),
    nn.Threshold(0.0, 0.0, True),
]


@pytest.mark.twin
@pytest.mark.parametrize("clamp", CLAMPS, ids=range(len(CLAMPS)))
def test_other_spellings_of_relu_keep_their_own_gradient(clamp: Callable[[Tensor], Tensor]) -> None:
    class Clamps(Statement):
        def forward(self, x: Tensor) -> Tensor:
            return self.b(clamp(self.keep(self.a(x))))

    model, x = Clamps(), torch.randn(7, 3)
    nn.init.zeros_(model.a.weight[:2])
    nn.init.zeros_(model.a.bias[:2])  # exactly 0, where clamp passes the gradient that ReLU stops; numba shares ties
    y, expected = by_hand(model, x, 1, {"balance": 0.3})
    (y.square().mean() + expected).backward()
    wanted = grads(model)
    with Jumpstart(model, 1.0, balance=0.3) as keep:
        (model(x).square().mean() + keep.penalty()).backward()
    close(grads(model), wanted)


class Picked(nn.Module):
    """Activates some entries only, which lie on no grid of points and units."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        z = self.linear(x)
        on = torch.arange(z.numel()).view_as(z) % 3 > 0
        return torch.zeros_like(z).masked_scatter(on, F.relu(z[on]))


def test_a_layer_as_a_whole_is_penalised_where_its_entries_lie_on_no_grid() -> None:
    model, x = Picked(), torch.randn(5, 3)
    with Jumpstart(model, weight=1.0, mode="L") as keep:
        model(x)
        measured = keep.penalty()
    z = model.linear(x)
    chosen = z[torch.arange(z.numel()).view_as(z) % 3 > 0].view(1, -1)
    expected = aggregate([separation.slacks(chosen, Separation(mode="L"))])
    torch.testing.assert_close(measured, expected)
