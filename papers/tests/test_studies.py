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
from alive_papers.experiments.ours.dying import LENS_WAYS
from alive_papers.run import Store
from alive_papers.run.work import train_cells
from alive_papers.studies import Run, codebook, continual, language, sae, train_runs
from alive_papers.studies.ways import attach

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


@pytest.mark.parametrize("activation", language.ACTIVATIONS)
@pytest.mark.parametrize("method", language.METHODS)
def test_a_language_model_of_a_seed_is_one_model(activation, method):
    options = (("layers", 1), ("activation", activation))
    run = Run("language", "x", method, steps=4, width=16, options=options)
    one, two = (dict(done.curves) for done in train_runs([run] * 2, digits()))
    for own in (one, two):
        assert own.pop("seconds")[-1] > 0
    assert one == two
    assert one["bits"][-1] < 12


def test_the_language_study_counts_as_a_loop_does_and_shrinks_its_dead():
    torch.manual_seed(0)
    x, y = language.passages(language.text()[1], 4, torch.Generator().manual_seed(0))
    for activation in ("ReLU", "ReLU²"):
        model = language.Language(16, 1, activation)
        mlp = model.networks[0]
        with torch.no_grad():
            mlp.up.bias[:3] = -99.0  # units that are dead
            mlp.up.weight[3:] *= 9
            mlp.up.bias[3:] -= 9.0  # and tokens for which all others are off
            h = mlp.up(model.blocks[0].norms[1](_stream(model, x))) > 0
        found = language.measured(model, x, y)
        assert found["dead"] == float((~h.flatten(0, 1).any(0)).double().mean())
        assert found["off"] == float((~h.any(-1)).double().mean()) > 0
        assert found["on"] == pytest.approx(float(h.double().mean()))
        removed, moved = language.shrunk(model, x)
        assert removed == round(found["dead"] * 64)
        assert moved < 1e-5


def _stream(model: language.Language, x: torch.Tensor) -> torch.Tensor:
    """What the network of the tokens reads, before its norm."""
    block, stream = model.blocks[0], model.bytes(x) + model.places
    heads = block.qkv(block.norms[0](stream)).unflatten(-1, (3, language.HEADS, -1)).permute(2, 0, 3, 1, 4)
    scores = heads[0] @ heads[1].mT / heads.shape[-1] ** 0.5
    seen = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1) @ heads[2]
    return stream + block.out(seen.transpose(1, 2).flatten(2))


LENS = pytest.mark.skipif(find_spec("sae_lens") is None, reason='SAELens is not installed: pip install ".[sae]"')


@LENS
@pytest.mark.filterwarnings("ignore")  # of its own imports
@pytest.mark.parametrize(("kind", "method"), [(kind, way) for kind, ways in LENS_WAYS.items() for way in ways])
def test_an_autoencoder_of_saelens(kind, method, capsys):
    """Its counter and the census agree at every mark, or the study stops."""
    run = Run("lens", "x", method, steps=10, width=32, options=(("kind", kind), ("gamma", 3.0)))
    one, two = train_runs([run] * 2, digits())
    assert one.curves == two.curves
    assert len(one.curves["dead"]) >= 2
    assert 0 < one.curves["matched"][-1] < 1


@LENS
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["topk", "gated"])
def test_sep_u_in_saelens_is_that_of_its_definition_and_saelens_loads_it(kind, tmp_path):
    from sae_lens import SAE, TrainingSAE
    from sae_lens.saes.sae import TrainStepInput

    from alive_papers.studies import lens

    torch.manual_seed(0)
    made, config = lens.SEP_U[kind]
    own = {"k": 3} if kind == "topk" else {}
    sae = made(config(d_in=6, d_sae=20, sep_u_coefficient=0.5, **own))
    for parameter in sae.parameters():
        parameter.data = torch.randn_like(parameter) / 2
    x = torch.randn(30, 6)
    told = sae.training_forward_pass(TrainStepInput(x, {"l1": 0.0}, None, 0, False))
    pre = (x - sae.b_dec * sae.cfg.apply_b_dec_to_input) @ sae.W_enc
    worst = []
    for unit in range(20):
        margins = []
        for row in range(30):
            if kind == "topk":
                scores = (pre[row] + sae.b_enc) * sae.W_dec.norm(dim=-1)
                others = torch.cat([scores[:unit], scores[unit + 1 :]]).sort(descending=True).values
                margins.append(float((scores[unit] - others[2].clamp(min=0)).detach()))
            else:
                magnitude = pre[row, unit] * sae.r_mag[unit].exp() + sae.b_mag[unit]
                margins.append(float(torch.minimum(pre[row, unit] + sae.b_gate[unit], magnitude).detach()))
        worst.append(max(0.0, 1 - max(margins)) ** 2)
    assert float(told.losses["sep_u_loss"]) == pytest.approx(0.5 * sum(worst) / 20, rel=1e-4)
    sae.save_inference_model(tmp_path)
    again = SAE.load_from_disk(tmp_path)
    torch.testing.assert_close(again(x), sae(x), rtol=1e-4, atol=1e-5)
    assert type(TrainingSAE.from_dict(sae.cfg.to_dict())) is made


@LENS
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", ["redo", "loss"])
def test_dead_latents_of_a_gated_autoencoder_are_revived(how):
    """Of gates that never open and of magnitudes that are never positive; its parameters are declared."""
    from sae_lens.synthetic import DeadLatentsCalculator

    from alive_papers.studies import lens

    torch.manual_seed(0)
    sae = lens.autoencoder(Run("lens", "x", "none", width=64), "gated").eval()
    x = torch.randn(200, lens.INPUTS)
    sae.b_gate.data[:5], sae.b_mag.data[5:9], sae.r_mag.data[:9] = -99.0, -99.0, 0.3
    found = alive.census(sae, x)
    assert found.chosen("latent").dead == 9
    done = alive.revive(sae, found, how=how, data=x, exact=False)
    assert "declare its wires" in str(done)
    done = alive.revive(sae, found, how=how, data=x, exact=False, wires=lens.wires("gated"), seed=0)
    counted = DeadLatentsCalculator(64)
    counted.add_batch(sae.encode(x))
    assert (done.units, counted.compute()) == (9, 0)
    assert not sae.r_mag[:9].any()


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


@pytest.mark.parametrize("name", ["sae", "continual", "drift", "agents", "language", "lens", "codebook"])
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
