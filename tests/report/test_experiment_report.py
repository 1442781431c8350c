"""The report: a page that stands alone, claims as they are, pictures of what was planted."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from alive.data import moons
from alive.experiments import EXPERIMENTS, Cell, Row
from alive.experiments.spec import KINDS
from alive.report.heat import _better, means
from alive.report.inside import layers_of, main_axes
from alive.report.page import DRAW, Judged, Part, judge, write_report
from alive.train.fleet import FleetRow, Member, train_fleet


def planted(cell, best):
    last = FleetRow(9, 0.1, 0.0, best, best, 0, 0, 0)
    return Row(cell, best, best, last, None, {"epoch": [0.0, 9.0], "train_accuracy": [0.5, best]})


@pytest.fixture
def part():
    """004-Fig2 as the paper prints it, at the quick scale."""
    reach = {"Sep-UP": 60, "ReLU": 10}
    experiment = EXPERIMENTS["004-Fig2"]
    cells = experiment.cells("quick")
    rows = [planted(cell, 1.0 if cell.member.depth <= reach[cell.member.method] else 0.5) for cell in cells]
    return Part(experiment, "quick", "dense", 1, rows, len(cells))


def test_every_kind_of_figure_can_be_drawn():
    assert set(DRAW) == set(KINDS)


def test_the_page_shows_every_claim_and_needs_no_network(part, tmp_path):
    files = write_report([part], [{"processor": "a <fine> one", "cores": 2}], tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert files[-1].name == "index.html"
    for claim in part.experiment.claims:
        assert claim.sentence in page.replace("&#39;", "'")
    assert "alive reproduce 004-Fig2 --scale quick --seeds 1" in page
    assert "a &lt;fine&gt; one" in page
    assert not re.search(r"https?://|<script|<link|@import", page)
    assert page.count("data:image/png;base64,") == 1
    assert "width=device-width" in page
    assert (tmp_path / "out" / "004-Fig2-quick-dense-heat.png").read_bytes()[:4] == b"\x89PNG"


def test_verdicts_follow_the_rows(part):
    judged = {one.claim.id: one for one in judge(part)}
    assert judged["width-3-jumpstart"].verdict == "reproduced"
    assert judged["width-25-jumpstart"].verdict == "differs"  # 60, and the paper says 100
    assert (judged["width-25-jumpstart"].published, judged["width-25-jumpstart"].ours) == ("100", "60")
    empty = replace(part, rows=[])
    assert {one.verdict for one in judge(empty)} == {"not run"}


def test_an_experiment_without_rows_still_has_its_claims(part, tmp_path):
    write_report([replace(part, rows=[])], [], tmp_path)
    assert (tmp_path / "index.html").read_text().count("not run") >= len(part.experiment.claims)


def test_means_are_over_seeds_and_the_better_rate_counts():
    def cell(seed, lr):
        return Cell(Member(3, 4, seed=seed, lr=lr))

    rows = [
        planted(cell(seed, lr), best)
        for seed, lr, best in ((1, 0.1, 0.6), (2, 0.1, 0.8), (1, 0.2, 0.75), (2, 0.2, 0.75))
    ]
    assert means(rows[:2]) == {(3, 4): pytest.approx(0.7)}
    assert {row.member.lr for row in _better(rows)} == {0.2}


def test_activations_are_those_of_the_network():
    (done,) = train_fleet([Member(5, 4, epochs=5)], moons(), threads=1).members
    network, x = done.network(), moons().train_x
    held = layers_of(network, x, (0, 3, 5))
    assert list(held) == [0, 3, 5]
    torch.testing.assert_close(network.output(held[5]), network(x))


def test_main_axes_keep_distances_of_what_is_flat():
    flat = np.random.default_rng(0).normal(size=(9, 2))
    turned = flat @ np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0][:2]

    def distances(points):
        return np.linalg.norm(points[:, None] - points[None], axis=2)

    np.testing.assert_allclose(distances(main_axes(turned)), distances(flat), atol=1e-9)


@pytest.mark.parametrize("name", ["001-T1", "001-Fig12", "depth-record", "atlas"])
def test_the_pictures_of_networks_that_were_kept(name, tmp_path):
    """Each experiment at a tiny size, from training to page."""
    experiment = EXPERIMENTS[name]
    cells = {}
    for cell in experiment.cells("quick"):
        member = cell.member
        deep = min(member.depth, 50)
        small = replace(cell, member=replace(member, depth=deep, epochs=max(2, member.epochs // 1000), dropout=None))
        cells.setdefault(small.key, small)
    kept = list(cells.values())[:60]
    fleet = train_fleet([cell.member for cell in kept], moons(), threads=1)
    rows = [Row.of(cell, done) for cell, done in zip(kept, fleet.members, strict=True)]
    files = write_report([Part(experiment, "quick", "dense", 1, rows, len(kept))], [], tmp_path)
    assert len(files) == len(experiment.figures) + 1
    assert all(file.stat().st_size > 1000 for file in files)


def test_a_number_alone_has_no_spread():
    from alive.experiments import Measured

    claim = EXPERIMENTS["001-T1"].claims[0]
    assert Judged(claim, Measured(0.5176, 1, 0.0)).ours == "0.5176"
    assert Judged(claim, Measured(0.5176, 2, 0.01)).ours == "0.5176 ± 0.0100"
    assert Judged(claim, None).ours == "–"
