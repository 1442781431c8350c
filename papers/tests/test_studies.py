"""Studies: the same seed gives the same run, penalties are the library's, measures are what they say."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import nn

import alive
from alive.data import digits
from alive.surgery import ResetByFiring
from alive_papers.experiments import EXPERIMENTS, Cell, Row
from alive_papers.run import Store
from alive_papers.run.work import train_cells
from alive_papers.studies import Run, codebook, continual, sae, train_runs
from alive_papers.studies.ways import attach, rates

OWN = {"weight": 1e-3, "bound": 2.0, "decay": 0.1}


def options(method: str, **setting: float) -> tuple[tuple[str, float], ...]:
    names = {"L2": "decay", "L2 to the start": "weight", "clipping": "bound", "Jumpstart": "weight"}
    own = {names[method]: OWN[names[method]]} if method in names else {}
    return tuple({**setting, **own}.items())


SMALL = {
    "sae": [Run("sae", "x", m, steps=12, width=16, options=(("gamma", 3.0), ("k", 2))) for m in sae.METHODS],
    "drift": [Run("drift", "x", m, steps=12, width=8, options=options(m, tasks=2)) for m in continual.METHODS],
    "continual": [Run("continual", "x", m, steps=12, width=8, options=options(m, tasks=2)) for m in continual.METHODS],
}


@pytest.mark.parametrize("study", SMALL)
def test_every_method_runs_and_a_seed_decides_everything(study):
    for run in SMALL[study]:
        one, two = train_runs([run, run], digits())
        assert one.curves == two.curves
        assert 0 <= one.curves["dead"][-1] <= 1
    labels = {tuple(train_runs([run], digits())[0].curves["dead"]) for run in SMALL[study][:1]}
    assert labels


@pytest.mark.parametrize("method", codebook.METHODS)
def test_a_codebook_of_digits(method, monkeypatch):
    monkeypatch.setattr(codebook, "SIDE", 4)  # digits have eight pixels a side
    run = Run("codebook", "x", method, steps=12, width=16)
    one, two = train_runs([run, run], digits())
    assert one.curves == two.curves


@pytest.mark.twin
def test_pulls_are_those_of_the_loss_and_of_the_bound():
    """L2 to the start is the gradient of weight · |p − start|²; clipping ends inside bounds of torch's start."""
    x, nets = torch.randn(16, 3), [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    starts = [p.detach().clone() for p in nets[0].parameters()]
    sgd = [torch.optim.SGD(net.parameters(), 0.1) for net in nets]
    with ExitStack() as stack:
        attach("L2 to the start", nets[0], sgd[0], x, stack, seed=0, weight=0.3)
        for _ in range(4):
            for number, net in enumerate(nets):
                loss = net(x).square().mean()
                far = sum((p - start).square().sum() for p, start in zip(net.parameters(), starts, strict=True))
                sgd[number].zero_grad()
                (loss + 0.3 * far * number).backward()
                sgd[number].step()
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        torch.testing.assert_close(one, other)
    with ExitStack() as stack:
        attach("clipping", nets[0], sgd[0], x, stack, seed=0, bound=0.5)
        nets[0](x).mean().backward()
        sgd[0].step()
    assert float(nets[0][0].weight.detach().abs().max()) <= 0.5 * 3**-0.5 + 1e-7
    assert float(nets[0][2].weight.detach().abs().max()) <= 0.25 + 1e-7


def test_rates_are_those_of_a_loop():
    net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU())
    x = torch.randn(40, 3)
    h, y = torch.relu(net[0](x)).detach(), net(x).detach()
    by_hand = [sum(float(row[k]) > 0 for row in z) / 40 for z in (h, y) for k in range(z.shape[1])]
    assert rates(net, x).tolist() == pytest.approx(by_hand)


@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="stable-baselines3 is not installed")
@pytest.mark.filterwarnings("ignore:multinomial is not penalised")  # PPO draws its actions
@pytest.mark.parametrize("kind", ["DQN", "PPO"])
@pytest.mark.parametrize("method", ["ReDo", "by firing", "Jumpstart"])
def test_an_agent_of_a_seed_is_one_agent(kind, method):
    steps = 700 if kind == "DQN" else 520
    run = Run("agents", kind, method, steps=steps, width=8, options=options(method, tasks=2))
    one, two = train_runs([run] * 2, digits())
    assert one.curves == two.curves
    assert all(0 <= share <= 1 for name in ("dead", "rare", "balanced") for share in one.curves[name])
    assert len(one.curves["balanced"]) == 2


@pytest.mark.skipif(find_spec("stable_baselines3") is None, reason="stable-baselines3 is not installed")
def test_an_agent_s_resets_reach_its_target_and_the_heads_of_ppo():
    from alive_papers.studies.agents import KINDS, Heads, Shuffled, gymnasium

    world = Shuffled(gymnasium.make("CartPole-v1"), np.random.default_rng(0))
    for kind in ("DQN", "PPO"):
        agent = KINDS[kind](world, Run("agents", kind, "by firing", width=8))
        net = agent.policy.q_net if kind == "DQN" else Heads(agent.policy)
        copies = [agent.policy.q_net_target] if kind == "DQN" else []
        first = net.q_net if kind == "DQN" else net.mlp_extractor.policy_net
        first[0].bias.data[3] = -99.0
        with ResetByFiring(net, agent.policy.optimizer, torch.randn(9, 4), patience=5, copies=copies).attach() as own:
            agent.learn(700 if kind == "DQN" else 256)
        assert own.replaced >= 1
        assert float(first[0].bias.data[3]) > -9
        if copies:
            torch.testing.assert_close(copies[0].q_net[0].bias[3], first[0].bias[3], rtol=0, atol=0.1)
    seen = [world.observation(np.arange(4.0)) for _ in range(2)]
    world.turn()
    assert (seen[0] == seen[1]).all()
    assert (np.sort(np.abs(world.observation(np.arange(4.0)))) == np.arange(4.0)).all()


@pytest.mark.twin
@pytest.mark.parametrize("kind", ["topk", "relu"])
def test_sep_u_of_the_study_is_that_of_jumpstart(kind):
    chance = torch.Generator().manual_seed(0)
    model = sae.SparseAutoencoder(8, 32, kind, 3, chance)
    x = torch.randn(64, 8) + 1
    with alive.Jumpstart(model, 1.0, mode="U", against="death", aggregate="meansq") as keep:
        model(x)
        theirs = keep.penalty()
        (wanted,) = torch.autograd.grad(theirs, model.encoder.weight)
    model(x)
    ours = sae.sep_u(model, model.seen[0])
    (found,) = torch.autograd.grad(ours, model.encoder.weight)
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), rel=1e-5)
    torch.testing.assert_close(found, wanted)


def test_dead_latents_of_the_study_are_those_of_the_census():
    chance = torch.Generator().manual_seed(0)
    model = sae.SparseAutoencoder(8, 64, "topk", 3, chance).eval()
    x = torch.randn(64, 8) + 2
    model(x)
    dead = int((~(model.seen[1] > 0).any(0)).sum())
    layer = next(layer for layer in alive.census(model, x).layers if layer.noun == "latent")
    assert layer.units.dead == dead > 0


def test_features_off_centre_are_as_far_off_as_asked():
    for gamma in (0.0, 3.0):
        source = sae.synthetic(gamma, torch.Generator().manual_seed(1))
        x = source.test
        spread = (x - x.mean(0)).square().sum(1).mean().sqrt()
        assert float(x.mean(0).norm() / spread) == pytest.approx(gamma, abs=0.1)


def test_a_run_is_stored_and_read_back(tmp_path):
    cell = Cell(SMALL["sae"][0], data="digits")
    (row,) = train_cells([cell]).rows
    with Store(tmp_path / "s.sqlite") as store:
        store.write([row], seconds=1.0)
        (back,) = store.rows([cell])
    assert isinstance(back, Row)
    assert back.result == row.result
    assert back.trace["dead"][-1] == pytest.approx(row.trace["dead"][-1])


@pytest.mark.parametrize("name", ["sae", "continual", "drift", "agents", "codebook"])
def test_all_methods_have_the_same_budget(name):
    for scale in ("quick", "paper"):
        cells = EXPERIMENTS[name].cells(scale, seeds=10)
        assert len({(c.member.steps, c.member.width, c.member.lr, c.data, c.points) for c in cells}) == 1
        assert len({c.member.seed for c in cells}) == 10


def test_a_slow_change_flips_one_bit_of_a_fixed_function():
    stream = continual.Drifting(torch.Generator().manual_seed(0))
    before = stream.bits.clone()
    stream.turn()
    assert int((stream.bits != before).sum()) == 1
    x, y = stream.batch(3000)
    assert torch.equal(x[:, :15], stream.bits.expand(3000, -1))
    assert set(x.flatten().tolist()) == {-1.0, 1.0}
    by_hand = sum(float(share) * torch.sign(x @ signs) for share, signs in zip(stream.share, stream.signs, strict=True))
    torch.testing.assert_close(y[:, 0], by_hand)
    assert stream.right(y, y) == pytest.approx(len(y))
