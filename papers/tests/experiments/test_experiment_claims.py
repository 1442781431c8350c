"""Claims on planted rows, where the answer is known; layers that do nothing, planted too."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alive.errors import AliveError
from alive.nn import Rectangular
from alive_papers.experiments import EXPERIMENTS, Cell, Claim, Measured, Row
from alive_papers.experiments.measure import (
    count,
    deepest,
    deepest_ratio,
    lead,
    share,
    trains,
    where,
    wins,
    worst_accuracy,
)
from alive_papers.experiments.ours.atlas import standings, winners
from alive_papers.experiments.ours.layer_work import layer_work, passing, passing_layer
from alive_papers.experiments.p001_separation.fifty import _falls_of
from alive_papers.fleet import EpochHealth, Member
from alive_papers.report.winners import wins as wins_of


def planted(depth, width, method="Sep-UP", *, seed=10, best=1.0, test=0.9, lr=0.01, **more):
    last = EpochHealth(9, 0.1, 0.0, best, test, 0, 0, 0)
    return Row(Cell(Member(depth, width, method, seed, lr=lr, **more)), best, test, last, None, {})


def test_the_deepest_that_trains_is_a_mean_over_seeds():
    rows = [
        planted(d, 3, seed=s, best=1.0 if d <= top else 0.52)
        for s, top in ((10, 60), (11, 40))
        for d in (20, 40, 60, 80)
    ]
    rows.append(planted(100, 4))  # of another width
    measured = deepest(where("Sep-UP", widths=(3,)))(rows)
    assert (measured.ours, measured.n) == (50, 2)
    assert measured.spread == pytest.approx(np.std([60, 40], ddof=1))
    assert deepest(where("Sep-UP", widths=(3,)))([planted(20, 3, best=0.5)]).ours == 0


def test_ratios_leads_and_shares():
    rows = [
        planted(60, 3),
        planted(10, 3, "ReLU"),
        planted(60, 3, "ReLU", best=0.5),
        planted(100, 5),
        planted(50, 5, "ReLU"),
    ]
    assert deepest_ratio("Sep-UP", "ReLU", widths=(3, 5))(rows).ours == 4  # mean of 6 and 2
    assert lead(where("Sep-UP", widths=(3,), depths=(60,)), where("ReLU"))(rows).ours == 0.5
    assert share(where("ReLU"), trains)(rows).ours == pytest.approx(2 / 3)


def test_wins_counts_and_the_worst_are_means_over_seeds():
    rows = [
        planted(d, 3, method, seed=s, test=0.5 + 0.1 * (method == "Sep-UP" and d > top))
        for s, top in ((10, 10), (11, 20))
        for d in (10, 20, 30)
        for method in ("ReLU", "Sep-UP")
    ]
    rows.append(planted(40, 3, "Sep-UP"))  # nothing to compare it with
    won = wins(where("Sep-UP"), where("ReLU"))(rows)
    assert (won.ours, won.n) == (1.5, 2)
    assert lead(where("Sep-UP"), where("ReLU"), test=True)(rows).ours == pytest.approx(0.05)
    assert count(where("Sep-UP"), lambda row: row.best_test > 0.55)(rows).ours == 2  # 3 of one seed, 1 of the other
    assert worst_accuracy(where("Sep-UP", depths=(30, 40)))(rows).ours == pytest.approx(0.6)


def test_the_papers_own_numbers_confirm_its_claims():
    fig2 = EXPERIMENTS["004-Fig2"]
    reach = {("Sep-UP", 3): 60, ("ReLU", 3): 10, ("Sep-UP", 25): 100, ("ReLU", 25): 30}
    cells = [cell for cell in fig2.cells("paper") if (cell.member.method, cell.member.width) in reach]
    rows = [
        planted(m.depth, m.width, m.method, epochs=m.epochs, best=1.0 if m.depth <= reach[m.method, m.width] else 0.52)
        for m in (cell.member for cell in cells)
    ]
    judged = {claim.id: claim.verdict(claim.measure(rows)) for claim in fig2.claims}
    assert set(judged.values()) == {"reproduced"}
    broken = [planted(row.member.depth, row.member.width, row.member.method, best=0.52) for row in rows]
    assert fig2.claims[0].verdict(fig2.claims[0].measure(broken)) == "differs"


def test_a_claim_must_agree_with_itself():
    with pytest.raises(AliveError, match="lies outside its own band"):
        Claim("x", "x", lambda rows: None, band=(0, 1), published=2)


def test_a_run_below_the_papers_scale_refutes_nothing_and_a_toy_decides_nothing():
    claim = Claim("x", "x", lambda rows: None, band=(0.9, 1), published=0.95)
    fig3 = EXPERIMENTS["001-Fig3"]
    inside, outside, wide = Measured(0.97, 3, 0.01), Measured(0.5, 3, 0.01), Measured(0.5, 3, 0.5)
    found = {
        scale: [fig3.verdict(claim, one, scale) for one in (inside, outside, wide)]
        for scale in ("quick", "middle", "paper")
    }
    assert found == {
        "quick": ["not decided"] * 3,
        "middle": ["reproduced", "not decided", "reproduced"],
        "paper": ["reproduced", "differs", "reproduced"],
    }
    assert EXPERIMENTS["atlas"].verdict(claim, outside, "quick") == "differs"  # of our own: about that run
    assert claim.deviations(wide) == pytest.approx(0.9)


def test_falls_count_only_after_a_solution():
    assert _falls_of([0.5, 0.6, 0.99, 0.5, 0.6, 1.0, 0.95, 0.85, 0.5, 0.99]) == 2
    assert _falls_of([0.5, 0.7, 0.5]) == 0


def test_the_atlas_takes_each_method_at_its_better_rate_and_names_ties():
    rows = [planted(5, 2, "ReLU", lr=lr, best=best) for lr, best in ((0.01, 0.6), (0.001, 0.998))]
    rows += [planted(5, 2, "Sep-UP", lr=lr, best=best) for lr, best in ((0.01, 1.0), (0.001, 0.7))]
    rows += [planted(5, 2, "Sep-P", best=0.9)]
    (some,) = standings(rows).values()
    assert [(s.label, s.lr) for s in some] == [("Sep-UP", 0.01), ("ReLU", 0.001), ("Sep-P", 0.01)]
    assert [s.label for s in winners(some)] == ["Sep-UP", "ReLU"]
    rows += [planted(9, 2, "Sep-P", best=0.9), planted(9, 2, "Sep-UP", best=0.8)]
    assert wins_of(standings(rows)) == {"Sep-UP": 1, "ReLU": 1, "Sep-P": 1}


def test_the_spread_of_wins_in_the_atlas_is_that_between_places():
    rows = [planted(5, 2, "ReLU"), planted(5, 2, "Sep-UP", best=0.8)]
    rows += [planted(50, 2, "ReLU", best=0.5), planted(50, 2, "Sep-UP", best=0.9)]
    won = next(claim for claim in EXPERIMENTS["atlas"].claims if claim.id == "relu-wins").measure(rows)
    assert (won.ours, won.n) == (0.5, 2)
    assert won.spread == pytest.approx(np.std([0, 1], ddof=1))


def measured(experiment, claim, rows):
    return next(each for each in EXPERIMENTS[experiment].claims if each.id == claim).measure(rows)


def test_rivals_are_judged_at_their_better_rate_and_where_both_ran():
    rows = [planted(50, 4, init="mirrored", best=0.9), planted(50, 4, init="mirrored", lr=0.001, best=0.99)]
    rows += [planted(50, 4, init="looks-linear", best=0.95), planted(100, 4, init="mirrored")]
    assert measured("rivals", "mirrored-as-looks-linear", rows).ours == pytest.approx(0.04)
    rows = [
        planted(depth, 4, "ReLU", init="deterministic", lr=lr, best=best)
        for depth, lr, best in ((100, 0.001, 1.0), (100, 0.01, 0.5), (50, 0.001, 0.5))
    ]
    assert measured("rivals", "deterministic-deep", rows).ours == 1
    assert measured("rivals", "orthogonal-deep", rows) is None


def test_the_share_that_trains_is_asked_for_each_epsilon():
    rows = [
        planted(80, 10, seed=seed, eps=eps, best=best)
        for seed, eps, best in ((10, 1e-7, 0.5), (10, 1e-5, 1.0), (11, 1e-7, 1.0), (11, 1e-5, 1.0))
    ]
    assert measured("adam-epsilon", "share-1e-7", rows).ours == 0.5
    assert (measured("adam-epsilon", "more", rows).ours, measured("adam-epsilon", "more", rows).n) == (0.5, 2)
    assert {cell.member.eps for cell in EXPERIMENTS["adam-epsilon"].cells()} == {1e-7, 1e-6, 1e-5, 1e-4}


def test_batch_norm_is_asked_how_deep_it_trains():
    rows = [planted(depth, 25, "ReLU+BN", best=1.0 if depth <= 50 else 0.6) for depth in (10, 50, 60)]
    claim = next(claim for claim in EXPERIMENTS["001-Fig1"].claims if claim.id == "bn-depth")
    assert (claim.measure(rows).ours, claim.published) == (50, 50)


def test_no_band_of_an_accuracy_reaches_beyond_one():
    for claim in EXPERIMENTS["001-T1"].claims:
        assert claim.band[1] <= 1, claim.id


def _kept(depth, working):
    """A mirrored 4-wide network of which only the layers `working` differ from passing on; logit = first feature."""
    rng = np.random.default_rng(0)
    inner = np.stack([passing(4)] * (depth - 1))
    for layer in working:
        inner[layer] += rng.normal(0, 0.3, (4, 4)).astype(np.float32)
    first = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)
    out = np.array([[20, 5, -20, -5]], np.float32)
    parts = [first, inner, np.zeros((depth, 4)), out, np.full(1, -5.0)]
    flat = np.concatenate([np.ravel(part) for part in parts]).astype(np.float32)
    cell = Cell(Member(depth, 4, init="mirrored"), keep_network=True)
    return Row(cell, 1.0, 1.0, None, None, {}, weights=flat.tobytes())


def test_layers_that_pass_on_are_not_needed():
    row = _kept(40, working=(3, 17, 18))
    work = layer_work(row)
    assert set(np.flatnonzero(work.moves > 1e-6)) == {3, 17, 18}
    assert work.needed <= 3
    assert layer_work(_kept(40, working=())).needed == 0


def test_the_accuracy_of_all_layers_is_that_of_the_torch_network():
    from alive.data import moons
    from alive.train import accuracy

    row = _kept(12, working=range(11))
    network = row.network()
    assert isinstance(network, Rectangular)
    data = moons()
    assert layer_work(row).accuracy == pytest.approx(accuracy(network(data.train_x), data.train_y))


def test_layers_of_convolutions_are_looked_into_too():
    """On digits, which every machine has."""
    from alive.data import load
    from alive.train import accuracy
    from alive_papers.fleet import train_fleet

    member = Member(6, 4, "ReLU", 3, architecture="conv", init="mirrored", noise=0.0, lr=0.01, epochs=1, batch_size=64)
    (done,) = train_fleet([member], load("digits").subset(500)).members
    cell = Cell(member, "digits", keep_network=True, points=500)
    row = Row(cell, 1.0, 1.0, None, None, {}, weights=done.kept[0])
    with torch.no_grad():
        network = row.network()
        data = cell.load()
        work = layer_work(row)
        assert work.accuracy == pytest.approx(accuracy(network(data.pixels(data.train_x)), data.train_y))
        assert (work.moves > 1e-4).all()  # the step moved every layer
        again = passing_layer(network.hidden[1])
        x = network.hidden[0](data.train_x[:5])
        assert torch.equal(again(x), again(again(x)))  # passing on twice is passing on once
        assert torch.equal(again(x)[:, :2] - again(x)[:, 2:], x[:, :2] - x[:, 2:])
