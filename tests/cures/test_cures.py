"""Cures: the lines that are printed do what is applied, to the bit; what is said to stay stays."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import alive
from alive.cures import AS_IS, CURES, NAMES, ORDER, Cure, changes, code, find, lines, words
from alive.cures.jumpstart import Weighed
from alive.cures.treatment import Treatment
from alive.errors import AliveError
from alive.penalties.jumpstart import is_kept
from alive.race import cure as race

X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
Y = (X.prod(1) > 0).long()
STEPS, SIZE, RATE = 3, 16, 0.02
OWNED = ("weight/100", "no penalty")  # which change a penalty that is there
FRESH = [name for name in NAMES if name not in OWNED]


def make_model() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)
    )


def optimiser_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=RATE, eps=1e-7, fused=True)


def loss_of(model: nn.Module, numbers: torch.Tensor) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(model.train()(X[numbers])[:, 0], Y[numbers].float())


BATCHES = torch.randperm(60, generator=torch.Generator().manual_seed(4)).split(SIZE)[:STEPS]


def script(text: str, model: nn.Module, batches=BATCHES, x=X, **names: object) -> nn.Module:
    """A training script of a user's own, with the printed lines pasted where their comments say."""
    places: dict[str, list[str]] = {
        place: [] for place in ("imports", "model", "optimiser", "before", "after", "stepped")
    }
    place = "imports"
    for line in text.splitlines():
        if line.startswith("# "):
            words = line.replace(",", "").replace("(", " ").split()
            place = words[words.index("the") + 1] if "once" in words else words[4]
            place = "stepped" if "optimiser.step" in words else place
        else:
            places[place].append(line)
    run = {place: "\n".join(found) for place, found in places.items()}
    names |= {"model": model, "x": x, "make_model": make_model}
    exec(run["imports"], names)
    exec(run["model"], names)
    names["optimiser"] = optimiser_of(names["model"])
    exec(run["optimiser"], names)
    for numbers in batches:
        names["loss"] = loss_of(names["model"], numbers)
        exec(run["before"], names)
        names["optimiser"].zero_grad()
        names["loss"].backward()
        exec(run["after"], names)
        names["optimiser"].step()
        exec(run["stepped"], names)
    return names["model"]


def same(model: nn.Module, other: nn.Module) -> bool:
    ours, theirs = model.state_dict(), other.state_dict()
    return list(ours) == list(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.twin
@pytest.mark.parametrize("name", FRESH)
def test_the_printed_lines_in_a_script_make_the_same_network(name: str) -> None:
    model, twin = make_model(), make_model()
    twin.load_state_dict(model.state_dict())
    torch.manual_seed(3)
    with Treatment(find(name), model, optimiser_of, X, make_model) as treatment:
        for numbers in BATCHES:
            treatment.step(loss_of(treatment.model, numbers))
    assert not is_kept(treatment.model)
    torch.manual_seed(3)
    assert same(treatment.model, script(lines(name), twin))


@pytest.mark.twin
@pytest.mark.parametrize(("name", "weight"), [("weight/100", 0.07), ("no penalty", 0.0)])
def test_a_penalty_that_is_there_weighs_less_or_goes(name: str, weight: float) -> None:
    model, twin = make_model(), make_model()
    twin.load_state_dict(model.state_dict())
    with Treatment((Weighed("UP", "sumsq", 7.0), *find(name)), model, optimiser_of, X) as treatment:
        assert is_kept(model) == bool(weight)
        for numbers in BATCHES:
            treatment.step(loss_of(model, numbers))
    by_hand = lines("jumpstart").replace("(model)", f'(model, weight={weight}, aggregate="sumsq")') if weight else ""
    assert same(model, script(by_hand, twin))
    owned = make_model()
    keep = alive.Jumpstart(owned, weight=7.0, aggregate="sumsq")
    script(lines(name), owned, batches=(), keep=keep)
    assert is_kept(owned) == bool(weight)
    assert not weight or keep.weight == weight


def test_a_new_penalty_takes_the_place_of_the_one_that_is_there() -> None:
    with Treatment((*find("jumpstart"), *find("U mean")), make_model(), optimiser_of) as treatment:
        assert repr(treatment.keep) == repr(alive.Jumpstart(make_model(), weight=0.3, mode="U", aggregate="mean"))


@pytest.mark.twin
def test_the_printed_lines_in_a_script_give_the_score_of_the_race() -> None:
    torch.set_num_threads(1)
    settings = {"steps": STEPS, "seeds": 1, "seed": 3, "lr": RATE, "batch_size": SIZE}
    names = ["mirrored, jumpstart", "clip", "rate/10", "standardise"]
    found = race(make_model, (X[:40], Y[:40], X[40:], Y[40:]), cures=names, **settings)
    chance = torch.Generator().manual_seed(3)
    batches = [part for _ in range(2) for part in torch.randperm(40, generator=chance).split(SIZE) if len(part) == SIZE]
    for arm in found.arms:
        if arm.steps == STEPS:
            torch.manual_seed(3)
            model = script(lines(arm.name), make_model(), batches[:STEPS], X[:40])
            right = (model.eval()(X[40:])[:, 0] > 0) == (Y[40:] > 0)
            assert arm.scores == [float(right.double().mean())], arm.name
    assert sum(arm.steps == STEPS for arm in found.arms) >= 2


@pytest.mark.contract
@pytest.mark.parametrize("name", NAMES)
def test_every_cure_says_what_it_does_and_changes_and_has_lines(name: str) -> None:
    assert words(name)
    assert changes(name)
    assert bool(lines(name)) == bool(code(name)) == (name != AS_IS)
    for text in (lines(name), "\n".join(code(name))):
        compile(text, name, "exec")


@pytest.mark.contract
@pytest.mark.parametrize("name", FRESH)
def test_what_is_said_to_stay_stays(name: str) -> None:
    model = make_model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    output = model(X).detach()
    with Treatment(find(name), model, optimiser_of, X, make_model) as treatment:
        now = treatment.model
    said = changes(name)
    if said in ("the loss has one more term", "the steps are smaller", "nothing"):
        assert torch.equal(now(X), output)
    if "weights stay" in said:
        values = list(now.state_dict().values())
        assert all(any(value.shape == a.shape and torch.equal(value, a) for a in values) for value in before.values())
    if "all weights are drawn anew" in said:
        changed = [layer.weight for layer in now.modules() if isinstance(layer, nn.Linear)]
        olds = [value for key, value in before.items() if key.endswith("weight")]
        assert not any(torch.equal(a, b) for a, b in zip(changed, olds, strict=True))


def test_clipping_bounds_the_gradient_and_rates_are_fractions() -> None:
    model = make_model()
    optimiser = optimiser_of(model)
    Treatment(find("clip, rate/100"), model, lambda _: optimiser).step(1000 * loss_of(model, BATCHES[0]))
    norms = [p.grad.norm() for p in model.parameters()]
    assert float(torch.stack(norms).norm()) == pytest.approx(1.0, rel=1e-4)
    assert optimiser.param_groups[0]["lr"] == RATE / 100


@pytest.mark.parametrize(
    ("name", "model", "x", "said"),
    [
        ("standardise", make_model(), None, "one tensor"),
        ("farkas", nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)), X, "Farkas"),
        ("skips", nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), X, "keeps the shape"),
        ("standardise", nn.Sequential(nn.Embedding(9, 4), nn.Flatten()), X.long() + 4, "real points"),
        ("weight/100", make_model(), X, "no penalty"),
        ("no penalty", make_model(), X, "no penalty"),
    ],
)
def test_a_cure_that_cannot_be_applied_says_why(name: str, model: nn.Module, x, said: str) -> None:
    with pytest.raises(AliveError, match=said):
        Treatment(find(name), model, optimiser_of, x)


class Forgetful(Cure):
    words = "change the model and forget to return it"

    def model(self, model: nn.Module) -> None:
        model.eval()


class Curious(Cure):
    words = "ask for what is not there"

    def model(self, model: nn.Module, scheduler: object) -> nn.Module:
        return model


class Clumsy(Cure):
    words = "fail"

    def model(self, model: nn.Module) -> nn.Module:
        for part in model:
            part.absent()
        return model


@pytest.mark.parametrize(
    ("cure", "said"),
    [
        (Forgetful(), "a NoneType, not a torch.nn.Module. Let it return the model"),
        (Curious(), "asks for scheduler"),
        (Clumsy(), "for part in model: part.absent() failed with AttributeError"),
    ],
)
def test_a_strangers_cure_that_fails_is_refused_in_one_line(cure: Cure, said: str) -> None:
    with pytest.raises(AliveError) as refused:
        Treatment([cure], make_model(), optimiser_of)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_are_combined_and_wrong_ones_refused() -> None:
    assert find("rate/1000, clip, farkas") == tuple(CURES[name] for name in ("rate/1000", "clip", "farkas"))
    with pytest.raises(AliveError, match=r"unknown cure 'mirored'.*did you mean 'mirrored'"):
        find("clip, mirored")
    assert {name for names in ORDER.values() for name in names} <= set(NAMES)
