"""Who is never chosen: census and penalty against brute force, in as many spellings as we could find."""

from __future__ import annotations

import json
import warnings
from typing import Any

import encoders
import pytest
import routers
import torch
from encoders import LATENTS, SPELLINGS, TOLD, WIDTH, Encoder, K
from routers import CODES, EXPERTS, LOOKUPS, OTHERS, ROUTERS, TABLES, codebook, routed
from torch import Tensor, nn

import alive
from alive.diagnosis import Limit
from alive.errors import AliveError
from alive.taps import Selects


def batches() -> list[Tensor]:
    x = torch.randn(50, WIDTH) + 1.5 * torch.randn(WIDTH)
    return [x[:30], x[30:]]


def truth(model: Encoder, data: list[Tensor]) -> Tensor:
    """The latents that the decoder saw, over all points."""
    model.eval()
    return torch.cat([(model(x), model.seen)[1] for x in data])


def selected(census: Any) -> list[Any]:
    return [layer for layer in census.layers if layer.noun != "unit"]


# Latents


@pytest.mark.parametrize("name", SPELLINGS)
def test_latents_are_counted_as_the_decoder_sees_them(name: str) -> None:
    model, data = Encoder(SPELLINGS[name]), batches()
    h = truth(model, data)
    found = alive.census(model, data, keep_points=True)
    (layer,) = selected(found)
    assert layer.noun == "latent"
    on = h != 0
    assert layer.states.tolist() == [1 if not row.any() else 2 if row.all() else 0 for row in on.t()]
    assert (layer.units.dead, layer.units.total) == (int((~on.any(0)).sum()), LATENTS)
    assert layer.points.dead == int((~on.any(1)).sum())
    assert found.chosen("latent") == layer.units
    assert not found.unseen
    assert not any(other.unknown for other in found.layers)
    assert layer.units.dead  # there is something to find


@pytest.mark.parametrize("name", TOLD)
def test_what_is_not_counted_is_told(name: str) -> None:
    model, data = Encoder(TOLD[name]), batches()
    behind = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), model)  # so that there is something to count
    found = alive.census(behind, data)
    assert selected(found) == []
    assert found.unseen or any(layer.unknown for layer in found.layers)
    assert Limit.parse("dead_latents>0").is_open(found) or any(layer.units.unknown for layer in found.layers)
    if found.unseen:
        assert "selects={" in " ".join(unseen.why for unseen in found.unseen)


def test_a_refusal_names_what_was_noticed() -> None:
    with pytest.raises(AliveError, match=r"sorts scores.*Selects"):
        alive.census(Encoder(TOLD["sorted_and_cut"]), batches())


class Declared(nn.Module):
    """A module of one's own that chooses by a sort, which is not followed."""

    def forward(self, z: Tensor) -> Tensor:
        return encoders.Winners.apply(z).relu()


class Ids(nn.Module):
    """One that returns which, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(CODES, WIDTH))

    def forward(self, z: Tensor) -> Tensor:
        return torch.cdist(z, self.table).sort(-1).indices[:, 0]


class Nearest(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.find, self.out, self.hit = Ids(), nn.Linear(WIDTH, 3), torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        self.hit = self.find(x)
        return self.out(self.find.table[self.hit])


def test_a_module_that_selects_can_be_declared() -> None:
    model, data = nn.Sequential(nn.Linear(WIDTH, LATENTS), Declared(), nn.Linear(LATENTS, WIDTH)), batches()
    h = torch.cat([model[:2](x) for x in data])
    (layer,) = alive.census(model, data, declared=alive.Declared(selects={Declared: Selects("latent")})).layers
    assert (layer.noun, layer.units.total) == ("latent", LATENTS)
    assert layer.units.dead == int((h == 0).all(0).sum()) > 0
    with alive.Jumpstart(
        model, 1.0, mode="U", against="death", declared=alive.Declared(selects={Declared: Selects("latent")})
    ) as keep:
        model(data[0])
        keep.penalty().backward()
    assert model[0].weight.grad.abs().sum() > 0


def test_a_module_that_returns_indices_can_be_declared() -> None:
    model, data = Nearest(), batches()
    hit = torch.cat([(model(x), model.hit)[1] for x in data])
    (layer,) = alive.census(model, data, declared=alive.Declared(selects={Ids: Selects("code", count=CODES)})).layers
    assert (layer.noun, layer.units.total, layer.points.total) == ("code", CODES, 0)
    assert layer.units.dead == CODES - len(hit.unique()) > 0
    with (
        warnings.catch_warnings(record=True) as said,
        alive.Jumpstart(model, declared=alive.Declared(selects={Ids: Selects("code", 16)})) as keep,
    ):
        warnings.simplefilter("always")
        for x in data:  # the first is followed, and what it computes for the count is not the model's
            model(x)
            assert keep.penalty() == 0
    assert [str(w.message) for w in said] == ["find is not penalised: it shows no scores"]


def test_a_wrong_declaration_is_refused() -> None:
    with pytest.raises(AliveError, match="latent"):
        Selects("latend")
    with pytest.raises(AliveError, match="Selects"):
        alive.census(Nearest(), batches(), declared=alive.Declared(selects={Ids: "code"}))


# Codes


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("look_up", LOOKUPS)
def test_codes_are_counted_as_they_are_looked_up(look_up: Any, table: str) -> None:
    model, x = codebook(look_up, table).eval(), torch.randn(7, 6)
    model(x)
    found = alive.census(model, x)
    (layer,) = selected(found)
    assert (layer.noun, layer.units.total) == ("code", CODES)
    assert layer.units.dead == CODES - len(model.hit) > 0
    assert {n for n, state in enumerate(layer.states.tolist()) if state != 1} == model.hit
    assert not found.unseen


def test_codes_of_several_codebooks_in_one_table_are_told() -> None:
    def go(m, x):
        z = m.encode(x).view(len(x), 2, 4).transpose(0, 1)
        ids = torch.cdist(z, m.table.view(2, CODES, 4)).argmin(-1)
        return m.decode(m.table[ids + CODES * torch.arange(2)[:, None]].transpose(0, 1).flatten(1)).relu()

    parts = {"encode": nn.Linear(6, 8), "decode": nn.Linear(8, 3), "table": nn.Parameter(torch.randn(2 * CODES, 4))}
    found = alive.census(routers.Model(go, **parts), torch.randn(9, 6))
    assert selected(found) == []
    assert "another number" in found.unseen[0].why


# Experts


@pytest.mark.parametrize("name", ROUTERS)
def test_experts_are_counted_as_points_are_sent(name: str) -> None:
    model, x = routed(ROUTERS[name]).eval(), torch.randn(3, 6)
    model(x)
    found = alive.census(model, x)
    (layer,) = selected(found)
    assert (layer.noun, layer.units.total) == ("expert", EXPERTS)
    assert {n for n, state in enumerate(layer.states.tolist()) if state != 1} == model.hit
    assert layer.units.dead > 0


def test_experts_that_only_python_knows_of_are_told() -> None:
    def go(m, x):
        return torch.stack([m.experts[e](row) for e, row in zip(m.gate(x).argmax(-1).tolist(), x, strict=True)])

    found = alive.census(routed(go), torch.randn(5, 6))
    assert [unseen.name for unseen in found.unseen] == ["argmax"]
    assert "Selects('expert'" in found.unseen[0].why


# No units


@pytest.mark.parametrize("name", OTHERS)
def test_choices_of_no_units_are_no_layers(name: str) -> None:
    model, x = OTHERS[name]()
    found = alive.census(model, x)
    assert selected(found) == []
    assert found.unseen == ()
    assert all(not layer.units.unknown for layer in found.layers)


# The penalty


def to_beat(scores: Tensor, k: int) -> Tensor:
    """For each entry, the k-th largest of the others in its row."""
    rows = scores.detach().tolist()
    return torch.tensor([[sorted(row[:j] + row[j + 1 :])[-k] for j in range(len(row))] for row in rows])


def lifted(margins: Tensor) -> Tensor:
    """The mean over latents of the squared slack of the largest margin."""
    return torch.stack([torch.relu(1 - column.max()) ** 2 for column in margins.unbind(1)]).mean()


def relu_layer(m: Encoder, x: Tensor) -> Tensor:
    return lifted(m.encoder(x))


def flat_margins(z: Tensor, k: int) -> Tensor:
    return z - to_beat(z.reshape(1, -1), k).view_as(z)


PENALTIES = {
    "relu_after": lambda m, x: lifted(m.encoder(x) - to_beat(m.encoder(x), K).clamp(min=0)),
    "linear_values": lambda m, x: lifted(m.encoder(x) - 1.5 - to_beat(m.encoder(x) - 1.5, K)),
    "at_least_the_kth": lambda m, x: lifted(m.encoder(x) - m.encoder(x).detach().sort(-1).values[:, [-K]]),
    "relu_before": lambda m, x: (
        relu_layer(m, x) / 2 + lifted(m.encoder(x).relu() - to_beat(m.encoder(x).relu(), K)) / 2
    ),
    "batch_flattened": lambda m, x: relu_layer(m, x) / 2 + lifted(flat_margins(m.encoder(x).relu(), K * len(x))) / 2,
    "jump": lambda m, x: lifted(m.encoder(x) - m.level.detach()),
    "jump_over_relu": lambda m, x: relu_layer(m, x) / 2 + lifted(m.encoder(x) - m.level.detach()) / 2,
    "gated": lambda m, x: relu_layer(m, x) / 2 + lifted(m.gate(x)) / 2,
}


@pytest.mark.parametrize("name", PENALTIES)
def test_the_penalty_lifts_the_largest_margin_to_being_chosen(name: str) -> None:
    model, x = Encoder(SPELLINGS[name]), batches()[0]
    with alive.Jumpstart(model, 1.0, mode="U", against="death") as keep:
        for _ in range(3):  # followed, and looked up
            model.zero_grad()
            model(x)
            penalty = keep.penalty()
            penalty.backward()
            mine = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    wanted = PENALTIES[name](model, x)
    wanted.backward()
    assert penalty.item() == pytest.approx(wanted.item(), rel=1e-5)
    assert wanted > 0.01
    for ours, p in zip(mine, model.parameters(), strict=True):
        assert torch.allclose(
            torch.zeros(()) if ours is None else ours, torch.zeros(()) if p.grad is None else p.grad, atol=1e-6
        )


def test_points_and_linearity_are_not_asked_of_selections() -> None:
    model, x = Encoder(SPELLINGS["relu_after"]), batches()[0]

    def penalty(**options: Any) -> float:
        with alive.Jumpstart(model, 1.0, **options) as keep:
            model(x)
            return keep.penalty().item()

    death = penalty(mode="U", against="death")
    assert penalty(mode="UP", balance=0.5) == pytest.approx(death / 4)  # β = 1/2, squared
    assert penalty(mode="P") == penalty(mode="U", against="linearity") == 0
    with pytest.raises(AliveError, match="no one-sided activation ran"):
        penalty(selections=False)


def test_dead_latents_come_back() -> None:
    model, x = Encoder(SPELLINGS["relu_after"]), torch.randn(200, WIDTH) + 3 * torch.randn(WIDTH)
    before = alive.census(model, x).chosen("latent").dead
    optimiser = torch.optim.Adam(model.parameters(), 0.01)
    with alive.Jumpstart(model, 1.0, mode="U", against="death") as keep:
        for _ in range(60):
            optimiser.zero_grad()
            loss = 0.1 * (model(x) - x).square().mean()
            (loss + keep.penalty()).backward()
            optimiser.step()
    after = alive.census(model, x).chosen("latent").dead
    assert before > LATENTS / 2
    assert after < before / 4


def test_codes_that_are_used_well_have_no_slack() -> None:
    """Of one choice, the margin of the chosen is to the second best: so it can be reached."""
    model = codebook(routers.by_distance, "parameter")
    x = 10 * torch.eye(routers.WIDTH)
    model.encode, model.table = nn.Identity(), nn.Parameter(x.clone())
    with alive.Jumpstart(model, 1.0, mode="U", against="death", layers=["argmin"]) as keep:
        model(x)
        assert keep.penalty() == 0


# What is said


def test_they_are_called_by_their_own_names() -> None:
    found = alive.census(Encoder(SPELLINGS["relu_before"]), batches())
    dead = found.chosen("latent").dead
    told = json.loads(found.to_json())
    assert told["latents"]["dead"] == dead
    assert [layer["noun"] for layer in told["layers"]] == ["unit", "latent"]
    assert f"{dead} of {LATENTS} latents are never chosen" in " ".join(str(found).split())
    assert f"{LATENTS} latents: " in found._repr_html_()
    assert Limit.parse("dead_latents>50%").holds(found) == (dead > LATENTS / 2)
    assert not Limit.parse("dead_codes>0").holds(found)
    assert Limit.parse(f"dead_units=={found.units.dead}").holds(found)


def test_selections_have_their_place_among_the_layers() -> None:
    """What a choice means is known at the end of the first pass; its place is where it was."""
    first = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    model = nn.Sequential(first, Encoder(SPELLINGS["relu_after"]), nn.ReLU())
    one, two = (alive.census(model, data, keep_points=True) for data in (batches()[0], batches()))
    for found in (one, two):
        assert [layer.noun for layer in found.layers] == ["unit", "latent", "unit"]


def test_the_model_is_left_as_it_was() -> None:
    model, data = Encoder(SPELLINGS["below_the_kth_set_in_place"]), batches()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    out = model(data[0])
    alive.census(model, data)
    with alive.Jumpstart(model) as keep:
        assert torch.equal(model(data[0]), out)
        keep.penalty()
    assert torch.equal(model(data[0]), out)
    assert all(torch.equal(before[name], p) for name, p in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
