"""A census for people: text, HTML and advice that name the right layers."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise

import pytest
import torch
from rich.console import Console
from rich.measure import Measurement
from torch import nn

from alive.diagnosis import Census, LayerCensus, Limit, Tally, census
from alive.diagnosis.signal import of_rows
from alive.errors import AliveError
from alive.functional import Activation
from alive.render import SCREENFUL, Origin, page, table, text
from alive.render.grid import LEAST_MISSED, grid
from alive.render.page import curves
from alive.render.rows import SEVERITIES, number, rows, worst_first

HEALTHY, DEAD, LINEAR, BROKEN = (2.0, -2.0), (-1.0, -2.0), (2.0, 1.0), (float("nan"), float("nan"))


def layer(name: str, *units: tuple[float, float], points: Tally | None = None, deaths: int = 0) -> LayerCensus:
    top, bottom = torch.tensor(units).T
    return LayerCensus(name, Activation("relu"), top, bottom, Tally(nonlinear=9) if points is None else points, deaths)


def of(*layers: LayerCensus, points: Tally | None = None) -> Census:
    return Census(layers, Tally(nonlinear=9) if points is None else points)


CASES = {
    "healthy": of(layer("a", HEALTHY, HEALTHY), layer("b", HEALTHY)),
    "dead": of(
        layer("a", HEALTHY, DEAD),
        layer("b", DEAD, DEAD, points=Tally(dead=4, nonlinear=5), deaths=4),
        points=Tally(dead=4, nonlinear=5),
    ),
    "linear": of(layer("a", LINEAR, HEALTHY), layer("b", LINEAR)),
    "broken": of(layer("a", HEALTHY), layer("b", BROKEN), points=Tally(broken=9)),
    "not told apart": of(layer("a", HEALTHY, points=Tally())),
    "long": of(*(layer(f"layers.{n}", DEAD if n == 77 else HEALTHY) for n in range(100))),
    "long and all dead": of(*(layer(f"layers.{n}", DEAD) for n in range(100))),
}


class Balanced(HTMLParser):
    """Refuses HTML whose tags do not close in order; keeps the text."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def text_of(html: str) -> str:
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return " ".join(parser.text.split())


@pytest.mark.parametrize("name", CASES)
def test_every_census_renders_as_text_and_as_well_formed_html(name: str) -> None:
    found = CASES[name]
    whole = text_of(page(found, "A title"))
    shown = [str(found), text_of(found._repr_html_()), whole.split("What the words mean")[0]]
    for said in shown:
        for advice in found.findings:
            assert advice.found in " ".join(said.split())
        assert ("Every unit and every point is alive." in said) == (name in ("healthy", "not told apart"))
        assert ("broken" in said) == (name == "broken")
    assert "A title" in shown[2]


def printed(found: Census, width: int = 120, **how: bool) -> str:
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(table(found, **how))
    said = console.file.getvalue()
    assert max(map(len, said.splitlines())) <= width
    return said


def layers_of(said: str) -> str:
    """The table, without the verdict and the findings before it."""
    return "\n" + re.split(r"\n *\n", said, maxsplit=1)[1]


def cells(said: str) -> dict[str, list[str]]:
    """The words of each line of a table, by the first of them."""
    return {row[0]: row[1:] for line in said.splitlines() if (row := line.split())}


def headings(said: str) -> set[str]:
    """The names of the columns: words of the second line, each with that above it, if any, which ends where it does."""
    above, below = (
        {match.end(): match[0] for match in re.finditer(r"\S+", line)}
        for line in layers_of(said).split("──")[0].splitlines()[1:3]
    )
    return {f"{above.get(end, '')} {word}".strip() for end, word in below.items()}


def test_text_has_a_row_for_each_layer_and_the_sums() -> None:
    found = cells(str(CASES["dead"]))
    assert found["a"] == ["1", "0", "1", "0", "0", "9"]
    assert found["b"] == ["2", "0", "0", "4", "0", "5", "4", "bends", "nothing"]
    assert found["all"] == ["3", "0", "1", "4", "0", "5"]


# The worst first.

SICK = {
    "broken": layer("the broken", BROKEN, HEALTHY),
    "all dead": layer("the all dead", DEAD, DEAD),
    "no signal": replace(layer("the no signal", HEALTHY, HEALTHY), signal=of_rows(torch.ones(9, 2), resolution=1e-7)),
    "bends nothing": layer("the bends nothing", DEAD, LINEAR),
    "dead points": layer("the dead points", HEALTHY, points=Tally(dead=1, nonlinear=8), deaths=1),
    "dead units": layer("the dead units", DEAD, HEALTHY),
    "unknown": layer("the unknown", HEALTHY, points=Tally(unknown=9)),
    "linear units": layer("the linear units", LINEAR, HEALTHY),
    "healthy": layer("the healthy", HEALTHY),
}
APART = of_rows(torch.randn(9, 2, generator=torch.Generator().manual_seed(0)), resolution=1e-7)


def test_layers_come_by_severity_then_by_share_then_in_order() -> None:
    assert tuple(SICK) == SEVERITIES
    more = (layer("more dead", DEAD, DEAD, HEALTHY), layer("as dead", HEALTHY, DEAD))
    found = replace(of(*reversed(SICK.values()), *more), input=APART)
    order = [row.label for row in worst_first(rows(found))]
    named = [f"the {name}" for name in SEVERITIES]
    assert order == [*named[:5], "more dead", "the dead units", "as dead", *named[6:]]
    for row in rows(found)[:9]:
        assert f"the {row.trouble}" == row.label
    said = printed(found, 200)
    at = [layers_of(said).index(f" {name} ") for name in order]
    assert at == sorted(at)
    said = printed(found, 200, everything=True)
    at = [layers_of(said).index(f" {each.name} ") for each in found.layers]
    assert at == sorted(at)


@pytest.mark.parametrize(
    ("name", "how"), [("long", "all healthy"), ("long and all dead", "none worse than these, 85 not")]
)
def test_a_long_model_shows_a_screenful_and_says_what_is_not_shown(name: str, how: str) -> None:
    found = CASES[name]
    said = printed(found)
    assert sum(f"layers.{n} " in layers_of(said) for n in range(100)) == SCREENFUL
    assert "layers.77 " in said or name != "long"
    assert f"({100 - SCREENFUL} layers not shown, {how}" in said
    assert "alive census -v" in said
    assert "everything=True" in str(found)
    for whole in (printed(found, everything=True), text(found, everything=True), text_of(found._repr_html_())):
        assert all(f"layers.{n} " in whole for n in range(100))
        assert "not shown" not in whole


def deep(width: int = 16, depth: int = 30) -> Census:
    hidden = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(OrderedDict((f"a_rather_long_name_{n}", part) for n, part in enumerate(hidden)))
    return census(model, torch.randn(50, width), gradient=True)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_at_any_width_nothing_is_cut_and_what_has_no_room_is_named(width: int) -> None:
    found = deep()
    said = printed(found, width)
    kept = re.sub(r"…\d+ →|a_rather…", "", said)
    assert "…" not in kept, "names are shortened, and nothing else"
    flat = "".join(said.split())
    for row in worst_first(rows(found))[:SCREENFUL]:
        first = row.label.partition(" → ")[0].removeprefix("a_rather_long_name_")
        assert re.search(rf"(…|_){first}→", flat), f"{row.label}: a shortened name still tells which layer it is"
    named = set(re.findall(r"no room for: (.*?);", " ".join(said.split()))[0].split(", ")) if width < 200 else set()
    heads = {"rank", "gradient", "spread", "linear units", "nonlinear points"}
    for name in heads:
        assert (name in named) != (name in headings(said)), f"{name} is shown or named, and not both"
    assert all(word in said for word in ("merged", "vanished", "bends", "nothing"))
    assert {"dead units", "dead points", "signal"} <= headings(said)


@pytest.mark.twin
@pytest.mark.parametrize("found", [deep(4, 5), *CASES.values()], ids=["deep", *CASES])
def test_a_table_takes_the_room_that_was_reckoned(found: Census) -> None:
    wide = Console(width=10_000)
    shown = [replace(each, label=f"{each.name} → relu", where=f"net.py:{each.name}") for each in found.layers]
    for some in (found, replace(found, layers=tuple(shown))):
        whole = grid(some, rows(some), rows(some))
        for most in range(len(LEAST_MISSED) + 1):
            room = Measurement.get(wide, wide.options, whole.table(LEAST_MISSED[:most])).maximum
            reckoned = whole.left_out(room)
            assert Measurement.get(wide, wide.options, whole.table(reckoned)).maximum <= room
            assert len(reckoned) <= most


def test_lines_are_a_column_or_below_the_labels_or_said_once() -> None:
    layers = [replace(layer(f"l{n}", DEAD), label=f"fc.{n} → relu", where=f"net.py:{n}") for n in range(3)]
    assert "fc.1 → relu net.py:1 " in re.sub(" +", " ", printed(of(*layers)))
    assert "\n net.py:1 " in printed(of(*layers), 40)
    alike = [replace(each, where="net.py:7") for each in layers]
    unsure = [*alike[:2], replace(alike[2], where="")]
    once, twice = (layers_of(printed(of(*some))) for some in (alike, unsure))
    assert (once.count("net.py:7"), once.count("all called at")) == (1, 1)
    assert (twice.count("net.py:7"), twice.count("all called at")) == (2, 0)


def test_the_verdict_is_never_better_than_the_signal() -> None:
    merged = replace(of(SICK["no signal"]), input=APART, output=SICK["no signal"].signal)
    assert merged.gone
    for said in (str(merged), text_of(merged._repr_html_())):
        assert "can hardly learn" in said
        assert merged.gone in " ".join(said.split())
        assert "is alive" not in said


# The page.


def test_html_escapes_names_and_titles() -> None:
    found = of(replace(layer("x", DEAD), label="<script>alert(1)</script>", where="<i>.py:1"))
    html = page(
        found, "<b>title</b> & more", Origin(command="alive census '<u>'", model="<u>", data="<u>", sample="<u>")
    )
    assert "<script>" not in html
    for tag in ("<b>title", "<i>", "<u>"):
        assert tag not in html
    assert "&lt;script&gt;" in html


def test_the_page_says_where_it_comes_from_and_what_its_words_mean() -> None:
    origin = Origin("alive census m:f --data d", "m:f", "d", "9 of 100, drawn at random", "2026-01-02")
    said = text_of(page(CASES["dead"], "T", origin))
    for word in ("2026-01-02", "alive census m:f --data d", f"torch {torch.__version__}", "9 points", "9 of 100"):
        assert word in said
    assert date.today().isoformat() in page(CASES["dead"], "T")
    meaning = page(CASES["dead"], "T").split("What the words mean")[1]
    defined = " ".join(re.findall(r"<dt>(.*?)</dt>", meaning))
    words = ["spread", "rank", "gradient", "died here first", "unknown", "broken", "merged", "vanished", "exploded"]
    for word in (*words, "bends nothing", "dead unit", "linear unit", "nonlinear", "dead point", "linear point"):
        assert word in defined


def test_the_page_draws_spread_and_gradient_and_says_them_in_words() -> None:
    found = deep()
    html = page(found, "T")
    drawn = dict(re.findall(r'aria-label="(.*?) over the layers: (.*?)">', html))
    assert set(drawn) == {"dead units", "spread", "gradient"}
    assert drawn["spread"].startswith(f"{number(found.layers[0].signal.spread)} in the first layer")
    assert f"{number(found.layers[-1].signal.gradient)} in the last" in drawn["gradient"]
    runs = re.findall(r'<polyline points="(.*?)"', html)
    assert [len(run.split()) for run in runs] == [30, 30, 30]
    heights = [float(at.split(",")[1]) for at in runs[1].split()]
    lower = [a.signal.spread > b.signal.spread for a, b in pairwise(found.layers)]
    assert [a < b for a, b in pairwise(heights)] == lower, "a smaller spread is drawn lower"
    assert all(0 <= height <= 40 for height in heights)


def test_a_curve_has_gaps_where_nothing_is_known() -> None:
    known = replace(layer("a", HEALTHY, HEALTHY), signal=APART)
    found = of(known, known, layer("b", HEALTHY), known)
    (spread,) = curves(rows(found))
    assert [len(line.split()) for line in spread.lines] == [2, 2]
    assert spread.lines[1].split()[0] == spread.lines[1].split()[1], "one layer alone is a dot"
    assert curves(rows(of(known))) == []


@pytest.mark.parametrize("name", ["blocks[0]", "[red]x[/red]", "[/x]", "[bold"])
def test_a_name_is_not_markup(name: str) -> None:
    assert name in str(of(layer(name, DEAD)))


def test_a_real_census_renders() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
    nn.init.constant_(model[0].bias, 9.0)
    nn.init.constant_(model[2].bias, -99.0)
    found = census(model, torch.randn(5, 3))
    assert "2 → relu" in str(found)
    assert "2 → relu" in text_of(found._repr_html_())
    assert "can hardly learn" in str(found)
    assert found.__rich__() is not None


# Advice.


def test_a_healthy_census_needs_no_advice() -> None:
    assert CASES["healthy"].findings == ()


def test_advice_names_the_worst_layers_first_and_at_most_three() -> None:
    layers = [layer(f"l{n}", *[DEAD] * n, *[HEALTHY] * (6 - n)) for n in range(6)]
    (advice,) = of(*layers).findings
    assert "15 of 36 units are off for every point, most in l5 (5 of 6), l4 (4 of 6), l3 (3 of 6)" in advice.found
    assert "l2" not in advice.found
    assert not advice.grave
    assert "Jumpstart" in advice.advice


def test_a_layer_of_dead_units_is_grave() -> None:
    assert any(advice.grave for advice in of(layer("x", DEAD, DEAD), layer("y", HEALTHY)).findings)


def test_advice_on_points_names_where_they_died() -> None:
    some = of(layer("a", HEALTHY, deaths=1), layer("b", HEALTHY, deaths=3), points=Tally(dead=4, nonlinear=5))
    (advice,) = some.findings
    assert "4 of 9 points die before the output, first at b (3), a (1)" in advice.found
    assert not advice.grave
    (advice,) = of(layer("a", HEALTHY, deaths=9), points=Tally(dead=9)).findings
    assert "no point reaches the output: all 9 die, first at a (9)" in advice.found
    assert advice.grave


def test_advice_on_broken_layers_names_the_first_and_comes_first() -> None:
    found = of(layer("a", DEAD), layer("b", BROKEN), layer("c", BROKEN), points=Tally(broken=9))
    first, *_ = found.findings
    assert "from b on" in first.found
    assert first.grave


def test_advice_on_linear_units_is_never_grave() -> None:
    advice = CASES["linear"].findings
    assert any("2 of 3 units are never off" in each.found for each in advice)
    assert not any(each.grave for each in advice)


# Limits.

SOME = of(layer("a", DEAD, HEALTHY, HEALTHY, HEALTHY), points=Tally(dead=2, linear=1, nonlinear=7))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("dead_units>0", True),
        ("dead_units > 1", False),
        ("dead_units>=1", True),
        ("dead_units<1", False),
        ("dead_units<=1", True),
        ("dead_units==1", True),
        ("dead_units != 1", False),
        ("dead_units==25%", True),
        (" dead_points >= 20 % ", True),
        ("dead_points>20.5%", False),
        ("linear_points==1", True),
        ("nonlinear_points==7", True),
        ("broken_units>0", False),
    ],
)
def test_limits_hold_as_they_read(text: str, holds: bool) -> None:
    assert Limit.parse(text).holds(SOME) is holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot read the limit ''"),
        ("dead_units", "Write a count, a comparison and a number"),
        ("dead_units>", "cannot read"),
        ("dead_units>-1", "cannot read"),
        ("dead_units=1", "cannot read"),
        ("dead_units>1>2", "cannot read"),
        ("ded_units>0", "unknown count 'ded_units'.*did you mean 'dead_units'"),
        ("dead>0", "unknown count 'dead'"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, said: str) -> None:
    with pytest.raises(AliveError, match=said):
        Limit.parse(text)


def test_a_share_of_nothing_is_zero() -> None:
    assert Limit.parse("dead_points>0%").value(of(layer("a", HEALTHY), points=Tally())) == 0


def test_tallies_add_and_sum() -> None:
    total = Tally(1, 2, 3, 4).plus(Tally(10, 20, 30, 40))
    assert total == Tally(11, 22, 33, 44)
    assert total.total == 110
