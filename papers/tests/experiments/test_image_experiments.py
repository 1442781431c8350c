"""Image experiments as records: the papers' grids, networks that can be made, measures on rows made by hand."""

from __future__ import annotations

import pytest
import torch

from alive.errors import AliveError
from alive_papers.experiments import EXPERIMENTS, Cell, Row
from alive_papers.experiments.keras_grids import learnt
from alive_papers.net import Net
from alive_papers.networks.zoo import ZOO, make
from alive_papers.report.curves import curves, learning

SHAPES = {
    "mnist": (1, 28, 28),
    "fashion-mnist": (1, 28, 28),
    "cifar10": (3, 32, 32),
    "cifar100": (3, 32, 32),
    "digits": (1, 8, 8),
    "friedman": (10,),
}
# Networks a seed, as the papers count them: methods x depths x widths x rates.
PAPER = {
    "001-Fig2": 3 * 10 * 3,
    "001-Fig3": 3 * 5,
    "004-T1": 2 * 54,
    "004-Fig3": 210,
    "004-Fig4": 80,
    "000-T1": 2 * 2 * 4 + 1,  # and the released ResNet-18
    "000-T2": 2 * 2 * 3,
    "000-T4": 4,
    "000-Fig5": 2,
    "002-Fig2": 4 * 8,
    "002-Fig3": 4 * 4,
    "003-T2": 2,
}


def nets(scale):
    return [cell for name in EXPERIMENTS for cell in EXPERIMENTS[name].cells(scale) if cell.member.engine == "loop"]


@pytest.mark.parametrize(("name", "count"), PAPER.items())
def test_the_papers_grids_have_as_many_networks_as_the_papers_say(name, count):
    assert len(EXPERIMENTS[name].cells("paper")) == count


@pytest.mark.contract
def test_every_quick_network_can_be_made_and_answers():
    kinds = {(c.member.network, c.member.depth, c.member.width, c.member.options, c.data): c for c in nets("quick")}
    assert {network for network, *_ in kinds} == set(ZOO)
    for cell in kinds.values():
        net, shape = cell.member, SHAPES[cell.data]
        outputs = {"cifar100": 100, "friedman": 1}.get(cell.data, 10)
        made = make(net.network, shape, outputs, depth=net.depth, width=net.width, generator=None, **dict(net.options))
        with torch.no_grad():
            assert made.eval()(torch.rand(2, *shape)).shape == (2, outputs), net


@pytest.mark.contract
def test_baseline_and_cure_have_one_budget():
    """In each experiment all methods see as many images in as many epochs, at the same depths and widths."""
    for name in ("001-Fig2", "001-Fig3", "004-T1", "004-Fig3", "002-Fig1", "002-Fig2", "000-T1"):
        for scale in EXPERIMENTS[name].scales:
            grids = {}
            for cell in EXPERIMENTS[name].cells(scale):
                if cell.label.endswith("as released"):  # one network more, beside the paper's own
                    continue
                budget = (cell.member.epochs, cell.points, cell.member.depth, cell.member.width, cell.data)
                label = cell.label.removesuffix(" + BN")
                grids.setdefault(label, set()).add(budget)
            assert len({frozenset(places) for places in grids.values()}) == 1, (name, scale)


def rows_of(name, accuracy):
    """A row for every quick cell and three seeds, with the test accuracy a function of the cell."""
    return [
        Row(
            cell,
            accuracy(cell),
            accuracy(cell),
            None,
            None,
            {"epoch": [0.0, 1.0], "test_accuracy": [0.1, accuracy(cell)]},
        )
        for cell in EXPERIMENTS[name].cells("quick", seeds=3)
    ]


def claims(name, rows, scale="quick"):
    return {claim.id: claim.measure(rows) for claim in EXPERIMENTS[name].claims if scale in claim.scales}


def test_claims_of_mnist_count_what_learns():
    def accuracy(cell: Cell) -> float:
        return 0.9 if cell.label == "Sep-UP" or cell.member.depth < 28 else 0.11

    found = claims("004-T1", rows_of("004-T1", accuracy))
    assert (found["deep-baseline"].ours, found["deep-jumpstart"].ours) == (0, 1)
    assert found["deep-baseline"].n == 3
    paper = claims("004-T1", rows_of("004-T1", accuracy), "paper")
    assert paper["successes-baseline"].ours == 3  # depth 4, three widths
    assert paper["better"].ours == paper["better-train"].ours == 6  # depths 28 and 44; at depth 4 both are equal


def test_the_best_of_004_t1_is_the_best_network_of_the_whole_grid():
    def accuracy(cell: Cell) -> float:
        return 0.9 - 0.001 * cell.member.depth - 0.01 * (cell.label == "ReLU") - 0.1 * (cell.member.seed == 12)

    found = claims("004-T1", rows_of("004-T1", accuracy), "paper")
    least = min(cell.member.depth for cell in EXPERIMENTS["004-T1"].cells("quick"))
    top = 0.9 - 0.001 * least - 0.1 / 3  # one seed of three is worse
    for name, ours in (("best-baseline", top - 0.01), ("best-jumpstart", top), ("best-jumpstart-train", top)):
        assert (found[name].ours, found[name].n) == (pytest.approx(ours), 3)


def test_of_a_hundred_classes_less_is_needed_to_have_learnt():
    def row(data: str, test: float | None) -> Row:
        return Row(Cell(Net("rectangle", 4, 8, "ReLU"), data), 0.5, test, None, None, {})

    assert [learnt(row("mnist", each)) for each in (0.2, 0.21, None)] == [False, True, False]
    assert [learnt(row("cifar100", each)) for each in (0.02, 0.021, 0.15)] == [False, True, True]


def test_table_2_of_002_is_there_for_both_data_sets():
    rows = [
        Row(cell, 0.9, 0.9 if cell.data == "cifar10" else 0.7, None, None, {})
        for cell in EXPERIMENTS["002-T2"].cells("paper", seeds=2)
    ]
    found = claims("002-T2", rows, "paper")
    assert len(found) == 8
    for name, measured in found.items():
        assert (measured.ours, measured.n) == (pytest.approx(30 if name.endswith("cifar100") else 10), 2)
    published = {claim.id: claim.published for claim in EXPERIMENTS["002-T2"].claims}
    assert published["VAN-26-cifar10"] == 6.35
    assert published["VAN (λ=0)-34-cifar100"] == 26.81


def test_a_van_that_broke_down_has_not_lost_its_skips():
    cell = next(cell for cell in EXPERIMENTS["002-Fig1"].cells("quick") if cell.label == "VAN")
    gone = next(claim for claim in EXPERIMENTS["002-Fig1"].claims if claim.id == "van-plain")
    rows = [Row(cell, 0.9, 0.9, None, stopped, {"residual": [1.0, 0.0]}) for stopped in (None, "the task loss is nan")]
    assert gone.measure(rows).ours == 0.5


def test_claims_of_skips_measure_the_fall_with_depth():
    def accuracy(cell: Cell) -> float:
        fall = 0.02 if cell.label == "Plain" else 0.001
        return 0.9 - fall * cell.member.depth

    found = claims("002-Fig1", rows_of("002-Fig1", accuracy))
    assert found["plain-falls"].ours == pytest.approx(0.58)
    assert found["van-holds"].ours == pytest.approx(0.029)
    assert found["van-plain"] is None  # no trace of gates, no number


def test_the_best_penalty_stands_against_none():
    def accuracy(cell: Cell) -> float:
        return {"ReLU": 0.4, "norm 0.1": 0.5}.get(cell.label, 0.3)

    found = claims("004-Fig3", rows_of("004-Fig3", accuracy), "paper")
    ours = [found[name].ours for name in ("wins", "best-jumpstart", "best-baseline")]
    assert ours == pytest.approx([0.5, 0.5, 0.4])  # norm wins everywhere, mean nowhere


def test_the_wins_of_004_fig3_are_those_at_the_larger_rate():
    """18 and 20 of 21 are the pairs of depth and width at .001, one number for each penalty."""
    rows = [
        Row(cell, 0.5, 0.4 if cell.label == "ReLU" else 0.5 if cell.member.lr == 1e-3 else 0.3, None, None, {})
        for cell in EXPERIMENTS["004-Fig3"].cells("paper")
    ]
    won = next(claim for claim in EXPERIMENTS["004-Fig3"].claims if claim.id == "wins").measure(rows)
    assert (won.ours, won.n) == (1, 42)


@pytest.mark.parametrize(("name", "draw"), [("002-Fig1", curves), ("002-Fig2", learning), ("004-Fig3", curves)])
def test_curves_are_drawn(name, draw, tmp_path):
    rows = rows_of(name, lambda cell: 0.5)
    for row in rows:
        if row.cell.label == "VAN":
            row.trace["residual"] = [1.0, 0.0]
    draw(rows, tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    draw(rows[:1], tmp_path / "one.png")
    assert (tmp_path / "one.png").exists()


def test_a_network_that_cannot_be_made_is_refused():
    with pytest.raises(AliveError, match="unknown network 'rectangel'"):
        make("rectangel", (1, 8, 8), 10, depth=2, width=4, generator=None)
    with pytest.raises(AliveError, match="layers, asked for 12"):
        make("compared-conv", (1, 8, 8), 10, depth=12, width=4, generator=None, kind="van")
    with pytest.raises(AliveError, match="cannot be made with"):
        make("rectangle", (1, 8, 8), 10, depth=2, width=4, generator=None, head="pool", colour="red")
    with pytest.raises(AliveError, match="may be dense or a convolution"):
        make("rectangle", (1, 8, 8), 10, depth=2, width=4, generator=None)
    dense = make("rectangle", (1, 8, 8), 10, depth=2, width=4, generator=None, head="none")
    assert [type(each).__name__ for each in dense.modules() if hasattr(each, "weight")] == ["Linear"] * 3
