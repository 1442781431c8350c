"""What experiments take: counted networks against formulas by hand, and the words of the arithmetic."""

from __future__ import annotations

from itertools import product

import pytest

from alive.data import DATA
from alive.errors import AliveError
from alive_papers.experiments import EXPERIMENTS, Measured
from alive_papers.experiments.effort import RATE, Load, count, digest, effort, works_of
from alive_papers.experiments.elsewhere import ELSEWHERE, IMAGENET
from alive_papers.experiments.recorded import Book, Made, Recorded, best
from alive_papers.sets.sizes import SIZES


def rectangle(depth, width):
    """FLOP of a 3x3 rectangle on 32x32 images of three channels, head of mean and maximum: by hand."""
    taps = 9 * 32 * 32
    return 2 * (taps * 3 * width + (depth - 1) * taps * width * width + 2 * width * 10)


def test_the_210_networks_of_004_fig3_by_hand():
    forward = 10 * sum(rectangle(*size) for size in product((10, 20, 30), (2, 8, 16, 32, 64, 96, 192)))
    found = effort(EXPERIMENTS["004-Fig3"], "paper")
    assert found.loads == (Load(210, 400, 50_000, forward),)
    assert found.flops == 400 * 50_000 * 3 * forward
    hours = found.flops / RATE / 3600
    assert found.needs == f"{hours:,.0f} GPU-hours"
    assert found.arithmetic.startswith("210 networks × 400 epochs × 50,000 images × 3 × 2.58 GFLOP on average = ")
    assert found.arithmetic.endswith(f"at 10 TFLOP/s {found.needs}")


def test_a_quick_scale_counts_the_points_it_takes():
    (load,) = effort(EXPERIMENTS["004-Fig4"], "quick").loads
    assert (load.epochs, load.points) == (4, 2000)


def test_thin_networks_are_a_lower_bound():
    found = effort(EXPERIMENTS["000-Fig5"], "quick", Book.read().forward)
    assert found.thin
    assert found.needs.startswith("at least ")


def test_a_fleet_takes_the_core_seconds_of_its_cells():
    fig1 = EXPERIMENTS["001-Fig1"]
    found = effort(fig1, "paper")
    by_hand = sum(
        norm * 1e-8 * 5000 * depth * width * (width + 40)
        for norm in (1, 1.5, 1)
        for depth in (1, *range(10, 121, 10))
        for width in (1, 2, 3, 4, 5, 10, 15, 20, 25)
    )
    assert found.core_seconds == pytest.approx(by_hand)
    assert (found.members, found.loads) == (3 * 13 * 9, ())


@pytest.mark.parametrize("name", ["moons", "digits", "friedman"])
def test_sizes_are_those_of_the_data(name):
    data = DATA[name]()
    assert SIZES[name] == (len(data.train_y), tuple(data.train_x.shape[1:]), data.outputs)


@pytest.mark.contract
def test_every_data_set_has_a_size():
    assert SIZES.keys() == {name for name in DATA if not name.startswith("tables/")}  # whose files say their sizes


def test_imagenet_by_the_papers_schedules():
    schedules = {each.name: [(one.epochs, one.points) for one in each.works()] for each in ELSEWHERE if each.works()}
    assert schedules == {"000-T3": [(30, IMAGENET)] * 6, "003-T2-ImageNet": [(700_000, 256)]}
    (one,) = next(each for each in ELSEWHERE if each.name == "003-T2-ImageNet").works()
    # He et al. give 3.6 billion multiplications for 34 layers at 224 pixels
    assert one.forward / 2 == pytest.approx(3.6e9, rel=0.05)


def test_the_counts_that_come_along_are_those_of_the_networks():
    known = Book.read().forward
    some = {one.name: one for name in ("000-Fig5", "003-T2", "004-Fig3") for one in _works(name, "quick")}
    assert some.keys() <= known.keys(), "make recorded.json anew with `alive report --record`"
    assert count(some.values()) == {name: known[name] for name in some}


def test_what_is_known_is_not_counted():
    works = _works("003-T2", "quick")
    assert set(count(works, {one.name: 7 for one in works}).values()) == {7}


def _works(name, scale):
    return works_of(EXPERIMENTS[name].cells(scale))


def test_a_digest_changes_with_any_setting():
    cells = EXPERIMENTS["001-T1"].cells("quick")
    assert digest(cells) == digest(reversed(cells)) != digest(cells[1:])


def recorded(ours=0.5, *, seeds=1, date="2026-01-01", scale="quick", claim="ReLU-train"):
    made = Made(date, "a machine", "alive 0")
    return Recorded("001-T1", claim, scale, "dense", seeds, 5 * seeds, Measured(ours, seeds, 0.0), made, "alive", "x")


def test_most_seeds_count_then_the_newest_then_the_first():
    old, new, many = recorded(0.1), recorded(0.2, date="2026-02-01"), recorded(0.3, seeds=3, date="2025-01-01")

    def chosen(*numbers, stale=()):
        return set(best(numbers, lambda number: number in stale))

    assert chosen(old, new) == chosen(new, old) == {new}
    assert chosen(new, many, old) == {many}
    assert chosen(new, many, old, stale=[many]) == {new}
    same = recorded(0.4)
    assert best([same, old], lambda number: False) == (same,)
    other = recorded(0.9, scale="paper")
    assert chosen(old, other) == {old, other}


def test_a_book_survives_its_file(tmp_path):
    book = Book((recorded(scale="paper"), recorded()), {"b": 2, "a": 1})
    path = tmp_path / "book.json"
    book.write(path)
    assert set(Book.read(path).numbers) == set(book.numbers)
    assert Book.read(path).forward == book.forward
    Book(book.numbers[::-1], {"a": 1, "b": 2}).write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert Book.read(tmp_path / "nowhere.json") == Book()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"numbers": [{}], "forward": {}}', '{"numbers": 3, "forward": {}}'])
def test_a_damaged_book_is_refused(tmp_path, text):
    path = tmp_path / "book.json"
    path.write_text(text)
    with pytest.raises(AliveError, match="holds no recorded numbers"):
        Book.read(path)
