"""Studies: the same seed gives the same run, penalties are the library's, measures are what they say."""

from __future__ import annotations

import pytest
import torch

import alive
from alive.data import digits
from alive_papers.experiments import EXPERIMENTS, Cell, Row
from alive_papers.run import Store
from alive_papers.run.work import train_cells
from alive_papers.studies import Run, codebook, continual, sae, train_runs

SMALL = {
    "sae": [Run("sae", "x", m, steps=12, width=16, options=(("gamma", 3.0), ("k", 2))) for m in sae.METHODS],
    "drift": [Run("drift", "x", m, steps=12, width=8, options=(("tasks", 2),)) for m in continual.METHODS],
    "continual": [Run("continual", "x", m, steps=12, width=8, options=(("tasks", 2),)) for m in continual.METHODS],
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


@pytest.mark.parametrize("name", ["sae", "continual", "drift", "codebook"])
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
