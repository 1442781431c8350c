"""The arms of a race: the lines that are printed do what was raced, to the bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import alive
from alive.errors import AliveError
from alive.race import AS_IS, RACED, cure
from alive.race.arms import ARMS, TERM, changes, lines, treated

X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
Y = (X.prod(1) > 0).long()
STEPS, SIZE, RATE = 3, 16, 0.02


def make_model() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)
    )


def by_hand(code: str, seed: int, train: tuple[torch.Tensor, torch.Tensor], test: tuple[torch.Tensor, ...]) -> float:
    """A training script of a user's own, with the printed lines pasted where their comments say."""
    places = {"model": [], "optimiser": [], "step": []}
    place = "model"
    for line in code.splitlines():
        if line.startswith("#"):
            place = next(name for name in ("step", "optimiser is made", "model") if name in line).split()[0]
            place = "model" if line.startswith("# once the model") else place
        else:
            places[place].append(line)
    torch.manual_seed(seed)
    names = {"model": make_model(), "x": train[0]}
    exec("\n".join(places["model"]), names)
    names["optimiser"] = torch.optim.Adam(names["model"].parameters(), lr=RATE, eps=1e-7, fused=True)
    exec("\n".join(places["optimiser"]), names)
    chance, made = torch.Generator().manual_seed(seed), 0
    while made < STEPS:
        for numbers in torch.randperm(len(train[0]), generator=chance).split(SIZE):
            if len(numbers) < SIZE or made == STEPS:
                continue
            output = names["model"].train()(train[0][numbers])[:, 0]
            names["loss"] = nn.functional.binary_cross_entropy_with_logits(output, train[1][numbers].float())
            exec("\n".join(places["step"]), names)
            names["optimiser"].zero_grad()
            names["loss"].backward()
            names["optimiser"].step()
            made += 1
    with torch.no_grad():
        return float(((names["model"].eval()(test[0])[:, 0] > 0) == (test[1] > 0)).double().mean())


@pytest.mark.twin
def test_the_printed_lines_in_a_script_give_the_score_of_the_race() -> None:
    torch.set_num_threads(1)
    train, test = (X[:40], Y[:40]), (X[40:], Y[40:])
    found = cure(make_model, (*train, *test), steps=STEPS, seeds=1, seed=3, lr=RATE, batch_size=SIZE, cures=list(ARMS))
    raced = [arm for arm in found.arms if not arm.refused]
    assert {arm.name for arm in raced} == set(ARMS)
    for arm in raced:
        if arm.steps == STEPS:
            assert arm.scores == [by_hand(lines(arm.name), 3, train, test)], arm.name
    assert sum(arm.steps == STEPS for arm in raced) >= len(raced) / 4


@pytest.mark.contract
@pytest.mark.parametrize("name", RACED)
def test_every_arm_says_what_it_changes_and_has_lines(name: str) -> None:
    assert changes(name)
    assert bool(lines(name)) == (name != AS_IS)
    compile(lines(name), name, "exec")


@pytest.mark.contract
@pytest.mark.parametrize("name", RACED)
def test_what_is_said_to_stay_stays(name: str) -> None:
    model = make_model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    output = model(X).detach()
    arm = treated(name, model, X)
    said = changes(name)
    if said in (TERM, "the steps are smaller", "nothing"):
        assert torch.equal(arm.model(X), output)
    if "weights stay" in said:
        now = list(arm.model.state_dict().values())
        assert all(any(value.shape == a.shape and torch.equal(value, a) for a in now) for value in before.values())
    if "all weights are drawn anew" in said:
        changed = [layer.weight for layer in model if isinstance(layer, nn.Linear)]
        olds = [value for key, value in before.items() if key.endswith("weight")]
        assert not any(torch.equal(a, b) for a, b in zip(changed, olds, strict=True))
    if arm.keep is not None:
        arm.keep.detach()


def test_an_arm_that_cannot_be_applied_says_why() -> None:
    with pytest.raises(AliveError, match="one tensor"):
        treated("standardise", make_model(), None)
    with pytest.raises(AliveError, match="Farkas"):
        treated("farkas", nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)), X)
    with pytest.raises(AliveError, match="keeps the shape"):
        alive.surgery.with_skips(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
