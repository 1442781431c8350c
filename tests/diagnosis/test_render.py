"""A census for people: text, HTML and advice that name the right layers."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
import torch
from torch import nn

from alive.diagnosis import Census, LayerCensus, Limit, Tally, census
from alive.diagnosis.advice import advise
from alive.diagnosis.render import LONG, page
from alive.errors import AliveError
from alive.functional import Activation

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
    shown = [str(found), text_of(found._repr_html_()), text_of(page(found, "A title"))]
    for text in shown:
        for advice in advise(found):
            assert advice.found in " ".join(text.split())
        assert ("Every unit and every point is alive." in text) == (name in ("healthy", "not told apart"))
        assert ("broken" in text) == (name == "broken")
    assert "A title" in shown[2]


def test_text_has_a_row_for_each_layer_and_the_sums() -> None:
    rows = [line.replace("│", " ").split() for line in str(CASES["dead"]).splitlines()]
    cells = {row[0]: row[1:] for row in rows if row and row[0] in ("a", "b", "all")}
    assert cells["a"] == ["1", "0", "1", "0", "0", "9"]
    assert cells["b"] == ["2", "0", "0", "4", "0", "5", "4"]
    assert cells["all"] == ["3", "0", "1", "4", "0", "5"]


def test_a_long_model_shows_only_the_troubled_layers() -> None:
    for text in (str(CASES["long"]), text_of(CASES["long"]._repr_html_())):
        assert "layers.77" in text
        assert "layers.76" not in text
        assert "99 layers not shown" in text
    for text in (str(CASES["long and all dead"]), text_of(CASES["long and all dead"]._repr_html_())):
        assert f"{100 - LONG} layers not shown" in text


def test_html_escapes_names_and_titles() -> None:
    found = of(layer("<script>alert(1)</script>", DEAD))
    html = page(found, "<b>title</b> & more")
    assert "<script>" not in html
    assert "<b>title" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("name", ["blocks[0]", "[red]x[/red]", "[/x]", "[bold"])
def test_a_name_is_not_markup(name: str) -> None:
    assert name in str(of(layer(name, DEAD)))


def test_a_real_census_renders() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())
    nn.init.constant_(model[0].bias, 9.0)
    nn.init.constant_(model[2].bias, -99.0)
    found = census(model, torch.randn(5, 3))
    assert "all 5 die, first at 3 (5)" in " ".join(str(found).split())
    assert "all 5 die, first at 3 (5)" in text_of(found._repr_html_())
    assert found.__rich__() is not None


# Advice.


def test_a_healthy_census_needs_no_advice() -> None:
    assert advise(CASES["healthy"]) == []


def test_advice_names_the_worst_layers_first_and_at_most_three() -> None:
    layers = [layer(f"l{n}", *[DEAD] * n, *[HEALTHY] * (6 - n)) for n in range(6)]
    (advice,) = advise(of(*layers))
    assert "15 of 36 units are off for every point, most in l5 (5 of 6), l4 (4 of 6), l3 (3 of 6)" in advice.found
    assert "l2" not in advice.found
    assert not advice.grave
    assert "Jumpstart" in advice.do


def test_a_layer_of_dead_units_is_grave() -> None:
    (advice,) = advise(of(layer("x", DEAD, DEAD), layer("y", HEALTHY)))
    assert advice.grave


def test_advice_on_points_names_where_they_died() -> None:
    some = of(layer("a", HEALTHY, deaths=1), layer("b", HEALTHY, deaths=3), points=Tally(dead=4, nonlinear=5))
    (advice,) = advise(some)
    assert "4 of 9 points die before the output, first at b (3), a (1)" in advice.found
    assert not advice.grave
    (advice,) = advise(of(layer("a", HEALTHY, deaths=9), points=Tally(dead=9)))
    assert "no point reaches the output: all 9 die, first at a (9)" in advice.found
    assert advice.grave


def test_advice_on_broken_layers_names_the_first_and_comes_first() -> None:
    found = of(layer("a", DEAD), layer("b", BROKEN), layer("c", BROKEN), points=Tally(broken=9))
    first, *_ = advise(found)
    assert "from b on" in first.found
    assert first.grave


def test_advice_on_linear_units_is_never_grave() -> None:
    (advice,) = advise(CASES["linear"])
    assert "2 of 3 units are never off" in advice.found
    assert not advice.grave


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
