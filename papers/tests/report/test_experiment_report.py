"""The report: a page that stands alone, claims as they are, pictures of what was planted."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import torch

from alive.data import moons
from alive_papers.experiments import EXPERIMENTS, Cell, Row
from alive_papers.experiments.spec import FIGURE_KINDS
from alive_papers.experiments.verdicts import Judged, Part, judge
from alive_papers.fleet import EpochHealth, Member, train_fleet
from alive_papers.net import Net
from alive_papers.report.curves import learning
from alive_papers.report.heat import _better, ink, means, seeds_of
from alive_papers.report.inside import _frame, layers_of, main_axes
from alive_papers.report.page import DRAW, write_report


def planted(cell, best):
    last = EpochHealth(9, 0.1, 0.0, best, best, 0, 0, 0)
    return Row(cell, best, best, last, None, {"epoch": [0.0, 9.0], "train_accuracy": [0.5, best]})


@pytest.fixture
def part():
    """004-Fig2 as the paper prints it, at the quick scale."""
    reach = {"Sep-UP": 60, "ReLU": 10}
    experiment = EXPERIMENTS["004-Fig2"]
    cells = experiment.cells("quick")
    rows = [planted(cell, 1.0 if cell.member.depth <= reach[cell.member.method] else 0.5) for cell in cells]
    return Part(experiment, "quick", "dense", 1, rows, cells)


def test_every_kind_of_figure_can_be_drawn():
    assert set(DRAW) == set(FIGURE_KINDS)


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
    judged = {one.claim.id: one for one in judge(replace(part, scale="paper"))}
    assert judged["width-3-jumpstart"].verdict == "reproduced"
    assert judged["width-25-jumpstart"].verdict == "differs"  # 60, and the paper says 100
    assert (judged["width-25-jumpstart"].published, judged["width-25-jumpstart"].ours) == ("100", "60")
    assert {one.verdict for one in judge(part)} == {"not decided"}  # a toy run
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


def test_a_map_says_of_how_many_seeds_it_is():
    rows = [planted(Cell(Member(depth, 4, seed=seed)), 1.0) for depth in (1, 2) for seed in (1, 2)]
    assert seeds_of(rows).endswith("how many of the 2 train")
    assert seeds_of(rows[:3]).startswith("colour: mean of 1 to 2 seeds")
    nets = [planted(Cell(Net("rectangle", 4, 2, "ReLU"), "mnist"), 0.9)]
    assert seeds_of(nets) == "colour: best accuracy of the one seed; number: 1 if it learns, else 0"


def luminance(colour):
    """Of red, green and blue in 0..1, as WCAG 2 has it."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_numbers_in_a_map_stand_out_from_their_cells(least):
    from matplotlib.figure import Figure

    image = Figure().subplots().imshow([[0.0]], cmap="magma", vmin=least, vmax=1)
    for value in np.linspace(least, 1, 101):
        written = {"black": (0, 0, 0), "white": (1, 1, 1)}[ink(image, value)]
        assert contrast(written, image.cmap(image.norm(value))[:3]) >= 4.5, value


@pytest.mark.parametrize("name", ["report.html", "evidence.html"])
def test_words_of_the_pages_stand_out_in_light_and_dark(name):
    text = (files("alive_papers.report") / "templates" / name).read_text()
    roots = re.findall(r":root \{(.*?)\}", text, re.S)
    assert len(roots) == 2, "one for light and one for dark"
    for root in roots:
        found = {
            key: [int(code[at : at + 2], 16) / 255 for at in (0, 2, 4)]
            for key, code in re.findall(r"--([\w-]+): #(\w{6})", root)
        }
        for colour in found.keys() & {"ink", "soft", "link", "green", "red", "blue", "grey", "violet"}:
            for ground in found.keys() & {"paper", "card", f"{colour}-bg"}:
                assert contrast(found[colour], found[ground]) >= 4.5, (colour, ground)
    assert not re.search(r"[^-]color: #", text.partition("</style>")[0].replace(roots[0], "").replace(roots[1], ""))


def test_rounding_is_not_drawn_as_a_cloud():
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    _frame(axis, np.array([[0, 0], [1e-8, 1e-15]], np.float32))
    assert np.ptp(axis.get_xlim()) > 1e-5
    _frame(axis, np.array([[-600, 0], [800, 1e-5]], np.float32))
    assert np.ptp(axis.get_ylim()) > 20
    assert np.ptp(axis.get_xlim()) < 2000


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


@pytest.mark.parametrize("name", ["001-T1", "001-Fig12", "depth-record", "atlas", "demo"])
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
    files = write_report([Part(experiment, "quick", "dense", 1, rows, kept)], [], tmp_path)
    assert len(files) == len(experiment.figures) + 1
    assert all(file.stat().st_size > 1000 for file in files)


def test_a_number_alone_has_no_spread():
    from alive_papers.experiments import Measured

    claim, part = EXPERIMENTS["001-T1"].claims[0], Part(EXPERIMENTS["001-T1"], "quick", "dense", 1, [], [])
    assert Judged(claim, Measured(0.5176, 1, 0.0), "", part).ours == "0.5176"
    assert Judged(claim, Measured(0.5176, 2, 0.01), "", part).ours == "0.5176 ± 0.0100"
    assert Judged(claim, None, "", part).ours == "–"


def course(net, data, epochs, accuracy):
    """A row of a net that was tested after each of these epochs."""
    cell = Cell(net, data)
    trace = {"epoch": [float(epoch) for epoch in epochs], "test_accuracy": [accuracy(epoch) for epoch in epochs]}
    return Row(cell, 0.9, 0.9, None, None, trace)


def drawn(monkeypatch, rows, tmp_path):
    """The strong lines of a learning figure: epochs and means by label."""
    held = []
    monkeypatch.setattr("alive_papers.report.curves.save_figure", lambda figure, path, **_: held.append(figure))
    learning(rows, tmp_path / "l.png")
    axis = held[0].axes[0]
    lines = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axis.get_lines()}
    return axis, {label: line for label, line in lines.items() if not label.startswith("_")}


def test_the_mean_of_seeds_is_taken_at_the_same_epochs(monkeypatch, tmp_path):
    """A run that broke down is thinned less than a whole one: its rows are of other epochs."""
    whole, broken = (Net("rectangle", 4, 8, "ReLU", seed) for seed in (10, 11))
    rows = [
        course(whole, "mnist", range(0, 400, 4), lambda epoch: epoch / 400),
        course(broken, "mnist", range(10), lambda epoch: epoch / 400),
    ]
    axis, lines = drawn(monkeypatch, rows, tmp_path)
    epochs, means_ = lines["ReLU"]
    assert epochs == [1, 5, 9]
    assert means_ == pytest.approx([0, 0.01, 0.02])
    assert len(axis.get_lines()) == 3, "each seed as far as it went, and the mean"
    assert axis.get_title() == "mnist, depth 4, 2 seeds"


def test_the_greatest_depth_is_that_of_the_data_shown(monkeypatch, tmp_path):
    """Of a run that is half done, the first data may lack the depths of the second."""
    rows = [
        course(Net("rectangle", depth, 8, "ReLU"), data, range(3), lambda epoch: 0.5)
        for depth, data in ((2, "digits"), (8, "mnist"))
    ]
    axis, lines = drawn(monkeypatch, rows, tmp_path)
    assert axis.get_title() == "digits, depth 2, 1 seed"
    assert list(lines) == ["ReLU"]
