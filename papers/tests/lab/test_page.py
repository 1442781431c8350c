"""The page as people meet it, in a real browser: presets, cures, links, bad input, keys, sizes."""

from __future__ import annotations

import json
import re
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlparse

import pytest

DOCS = Path(__file__).parents[3] / "docs"
SHOWN = "!!document.querySelector('#census tbody')"
RESTS = f"{SHOWN} && word() === 'Play' && !/ of /.test(text('.figures'))"
HELPERS = """
const all = (what) => [...document.querySelectorAll(what)];
globalThis.$ = (what) => document.querySelector(what);
globalThis.text = (what) => $(what)?.textContent ?? "";
globalThis.word = () => text("#play .word");
globalThis.faults = () => text("#faults");
const cells = (row) => [...row.cells].slice(1).map((cell) => cell.textContent);
globalThis.census = () => all("#census tbody tr").map((row) => cells(row).map(Number));
const named = (row) => [row.cells[0].textContent, cells(row)];
globalThis.scores = () => Object.fromEntries(all("#scores tbody tr").map(named));
globalThis.set = (name, value) => {
  const field = $(`#form [name=${name}]`);
  field.value = value;
  field.dispatchEvent(new Event("change", {bubbles: true}));
};
globalThis.middle = (what) => {
  const box = $(what).getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
};
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def at(browser, page):
    """Open the page at an address, and wait until it rests."""
    browser.size(1400, 1000)
    seen = {"console": browser.console, "requests": browser.requests}

    def go(link="", until=RESTS):
        browser.open(f"{page}#{link or 'epoch=0'}")
        browser.ask(HELPERS)
        browser.until(until)
        return browser

    yield go
    assert seen["console"] == []
    ours = ("file:", "blob:", "data:", "about:", "http://127.0.0.1:")
    assert all(url.startswith(ours) for url in seen["requests"])


def accuracy(tab, net=0):
    return float(tab.ask("scores()")["training accuracy"][net].rstrip("%")) / 100


def presets(tab):
    return tab.ask("lab.PRESETS")


def test_the_page_shows_a_network_that_was_born_dead(at):
    tab = at()
    units, points = tab.ask("census()")
    assert units[-1] == 200
    assert units[0] > 150
    assert points == [85, 0, 0, 85]
    assert tab.ask("text('#presets')") == "".join(preset["title"] for preset in presets(tab))


def test_the_page_opens_on_a_network_that_learns(at, browser, page):
    browser.open(page)
    browser.ask(HELPERS)
    browser.until("word() === 'Pause' && parseFloat(scores()['training accuracy']) > 90", 120)
    assert "learning now" in browser.ask("text('#sentence')")
    assert "dead while it is zero for every point" in " ".join(browser.ask("text('#words')").split())
    assert browser.ask("$('#form [name=method]').value") == "sep-up"
    assert browser.ask("location.hash") == ""  # opened again, it learns again
    browser.ask("$('#play').click()")
    browser.until(f"{RESTS} && /method=sep-up.*epoch=\\d\\d/.test(location.hash)")


def test_the_method_shown_is_the_one_in_force(at):
    tab = at("depth=4&width=3&method=none&start=glorot&epoch=5")
    assert tab.ask("[$('#form [name=method]').value, $('#cures').hidden]") == ["none", True]
    tab.ask("$('#cure-sep-up').click()")
    tab.until("text('#cures') === 'Sep-UP since epoch 5'")
    assert tab.ask("$('#form [name=method]').value") == "sep-up"
    tab.ask("$('#cure-mirrored').click()")
    tab.until("$('#form [name=start]').value === 'mirrored'")
    tab.ask("$('#back').click()")
    tab.until("$('#form [name=method]').value === 'none' && $('#cures').hidden")


def test_training_does_not_help_it_and_the_cure_does(at):
    tab = at()
    tab.ask("$('#pace').value = '0'; $('#play').click()")
    tab.until("word() === 'Pause' && +text('.figures').match(/epoch ([\\d,]+)/)?.[1].replace(',', '') > 60")
    tab.ask("$('#play').click()")
    tab.until("word() === 'Play'")
    assert tab.ask("census()")[1][0] == 85
    assert accuracy(tab) < 0.6
    tab.ask("$('#cure-sep-up').click(); $('#play').click()")
    tab.until("parseFloat(scores()['training accuracy']) > 95", 120)
    tab.ask("$('#play').click()")
    tab.until("word() === 'Play'")
    assert tab.ask("census()")[0][0] < 20
    assert tab.ask("$('#cure-sep-up').disabled")
    assert "Sep-UP from epoch " in tab.ask("text('.network .head')")


def test_presets_are_what_their_sentences_say(at):
    tab = at()
    found = {}
    for preset in presets(tab):
        tab.ask(f"$('#presets [data-name={preset['name']}]').click()")
        tab.until(f"text('#sentence') === {json.dumps(preset['sentence'])} && {RESTS}", 120)
        assert tab.ask("faults()") == ""
        found[preset["name"]] = (*tab.ask("census()"), accuracy(tab), tab.ask("text('#turns')"))
    units, points, right, _ = found["born-dead"]
    assert points[0] == 85
    still = """(() => { const s = lab.readLink(lab.PRESETS[0].link).state.nets[0];
      const r = new lab.Run(s, lab.load(s));
      const before = [...r.network.parameters]; for (let k = 0; k < 50; k++) r.step();
      return before.map((w, k) => r.network.parameters[k] !== w) })()"""
    moved = tab.ask(still)
    assert moved == [False] * (len(moved) - 1) + [True]
    units, points, right, _ = found["batch-norm"]
    assert units[2] > 120  # 162 to 194 at seeds 3 to 8; exp and log of another browser lead a chaotic walk elsewhere
    assert units[0] < 50
    assert points[0] > 70
    assert right < 0.8
    assert found["mirrored"][2] > 0.95
    units, points, right, _ = found["sep-up-revives"]
    assert right > 0.95
    assert units[0] < 20
    title = next(preset["title"] for preset in presets(tab) if preset["name"] == "a-unit-dies")
    step = re.search(r"\d+", title)
    assert step
    assert f"Epoch {step[0]}: " in found["a-unit-dies"][3]
    assert "died" in found["a-unit-dies"][3].split("Epoch")[1]
    assert found["a-unit-dies"][0][0] == 12
    assert found["a-unit-dies"][2] > 0.95


def test_the_document_shows_every_preset(at):
    text = (DOCS / "lab.md").read_text()
    for preset in presets(at()):
        assert f"[{preset['title']}](../papers/src/alive_papers/lab/page.html#{preset['link']})" in text
        assert preset["sentence"] in text
        assert f"(lab-{preset['name']}.png)" in text
        assert (DOCS / f"lab-{preset['name']}.png").exists()


def test_a_link_brings_back_the_picture(at):
    link = (
        "data=circles&depth=12&width=5&activation=elu&start=torch&method=none&rate=0.02&weight=0.5&optimiser=momentum"
    )
    tab = at(f"{link}&seed=3&compare=1&b.method=farkas&cure=20:sep-up&b.cure=5:sep-up&epoch=40")
    first = tab.ask("[location.hash, census(), scores(), $('#maps canvas').toDataURL()]")
    assert tab.ask("faults()") == ""
    assert len(first[1]) == 4
    assert sorted(first[0][1:].split("&")) == sorted(
        f"{link}&seed=3&compare=1&b.method=farkas&cure=20:sep-up&b.cure=5:sep-up&epoch=40".split("&")
    )
    tab = at(first[0][1:])
    assert tab.ask("[location.hash, census(), scores(), $('#maps canvas').toDataURL()]") == first


def test_own_points_are_clicked_pasted_and_shared(at):
    tab = at("data=own&depth=3&width=6&start=kaiming")
    assert tab.ask("census()")[1][-1] == 4
    tab.ask("$('#form [name=class][value=\"1\"]').checked = true")
    tab.click(*tab.ask("middle('#maps canvas')"))
    tab.until(f"{RESTS} && census()[1][3] === 5")
    assert re.search(r"points=.*;-?0(\.\d+)?,-?0(\.\d+)?,1&", tab.ask("location.hash"))
    tab.ask("$('#pasted').value = '0.5 0.5 1\\n-0.5, -0.5, 0\\n0;1;1'; $('#paste').click()")
    tab.until(f"{RESTS} && census()[1][3] === 3")
    assert at(tab.ask("location.hash.slice(1)")).ask("census()")[1][3] == 3
    for wrong, said in [
        ("0.5, NaN, 1", "Line 1, “0.5, NaN, 1”, is no point"),
        ("1,2", "is no point"),
        ("", "nothing to use"),
    ]:
        tab.ask(f"$('#pasted').value = {json.dumps(wrong)}; $('#paste').click()")
        assert said in tab.ask("faults()")
        assert tab.ask("census()")[1][3] == 3
    tab.ask("$('#clear').click()")
    assert "There are no points" in tab.ask("faults()")
    tab.click(*tab.ask("middle('#maps canvas')"))
    tab.until(f"{RESTS} && census()[1][3] === 1")


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("depth=0", "Depth is a whole number of layers from 1 to 200, not “0”."),
        ("depth=NaN&width=33", "Width is a whole number of units from 1 to 32, not “33”."),
        ("method=magic", "There is no method “magic”; choose one of none, batch-norm"),
        ("rate=-1", "The rate is a number above 0"),
        ("epoch=1e9", "The epoch is a whole number"),
        ("cure=now", "“now” is no cure"),
        ("<b>nonsense</b>=1", "means nothing here"),
        ("data=own&points=1,NaN,0", "is no point"),
        ("width=1&start=mirrored", "The mirrored start needs width 2 or more"),
        ("depth=%E0%A4%A", "cannot be read"),
    ],
)
def test_an_address_made_by_hand_gets_a_sentence_and_a_network(at, link, said):
    tab = at(link)
    assert said in tab.ask("faults()")
    assert tab.ask("census()")[0][-1] > 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("depth", "0", "Depth is a whole number"),
        ("depth", "2.5", "Depth is a whole number"),
        ("rate", "fast", "The rate is a number above 0, at most 100, not “fast”."),
        ("weight", "", "The weight of the penalty is a number"),
        ("seed", "-1", "The seed is a whole number"),
    ],
)
def test_what_cannot_be_set_is_said_and_the_network_stays(at, name, value, said):
    tab = at("epoch=3")
    before = tab.ask("census()")
    tab.ask(f"set({json.dumps(name)}, {json.dumps(value)})")
    assert said in tab.ask("faults()")
    assert tab.ask(f"$('#form [name={name}]').getAttribute('aria-invalid')") == "true"
    assert tab.ask("census()") == before
    tab.ask(f"set({json.dumps(name)}, {json.dumps('7' if name != 'rate' else '0.1')})")
    tab.until(RESTS)
    assert tab.ask("faults()") == ""


def test_a_loss_that_explodes_is_said(at):
    tab = at("depth=8&width=8&start=kaiming&activation=elu&optimiser=sgd&rate=100&epoch=300", SHOWN)
    tab.until("/no longer a finite number/.test(faults())")
    tab.until("word() === 'Play'")


def test_the_pace_is_kept(at):
    tab = at("depth=3&width=3")
    tab.ask("$('#pace').value = '10'; globalThis.begun = performance.now(); $('#play').click()")
    tab.until("/epoch 15loss/.test(text('.figures'))")
    assert tab.ask("performance.now() - begun") > 1300


def test_it_works_from_a_web_site_and_asks_no_other(browser, page):
    folder = Path(unquote(urlparse(page).path)).parent
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{server.server_port}/"
        before = len(browser.requests)
        browser.open(f"{site}lab.html#depth=4&width=3&epoch=5")
        browser.ask(HELPERS)
        browser.until(f"{RESTS} && /epoch 5loss/.test(text('.figures'))")
        asked = [url for url in browser.requests[before:] if not url.startswith(("blob:", "data:", "about:"))]
        assert [url.partition("#")[0] for url in asked] == [f"{site}lab.html"]
        browser.send("Page.navigate", url="about:blank")
        server.shutdown()


def test_keys_do_what_buttons_do(at):
    tab = at("depth=6&width=3&start=torch")
    tab.key("s")
    tab.until("/epoch 1loss/.test(text('.figures'))")
    tab.key(" ")
    tab.until("word() === 'Pause'")
    tab.key(" ")
    tab.until("word() === 'Play'")
    tab.key("c")
    tab.until("$('#cure-sep-up').disabled")
    tab.key("r")
    tab.until("/epoch 0loss/.test(text('.figures'))")
    tab.ask("$('.network canvas').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        tab.key(key)
    tab.until("/Layer 3, unit 2/.test(text('#about'))")
    assert tab.ask("$('#response').hidden") is False
    assert tab.ask("$('#about').getAttribute('aria-live')") == "polite"


def test_a_unit_under_the_pointer_shows_what_it_answers(at):
    tab = at()
    x, y, width = tab.ask(
        "(() => { const b = $('.network canvas').getBoundingClientRect(); return [b.x, b.y, b.width] })()"
    )
    tab.click(x + 42 + (width - 48) * 7.5 / 50, y + 20)
    tab.until("/Layer 8, unit 1.*85 of 85 points are dead here, 72 of them for the first time/.test(text('#about'))")
    tab.until("!$('#ringed').hidden")


def test_two_networks_begin_alike_and_part(at):
    tab = at("epoch=0")
    tab.ask("$('#compare').click()")
    tab.until(f"{RESTS} && census().length === 4")
    a, _, b, _ = tab.ask("census()")
    assert a == b
    assert tab.ask("[$('#form [name=method]').value, $('#form [name=which]:checked').value]") == ["sep-up", "1"]
    tab.ask("$('#play').click()")
    tab.until("census()[2][0] < census()[0][0] - 50")
    tab.ask("$('#play').click()")
    tab.until("word() === 'Play'")


def test_everything_has_a_name_for_those_who_do_not_see_it(at):
    at("compare=1&epoch=2")
    tab = at("compare=1&epoch=2")
    nameless = """[...document.querySelectorAll("button, select, input, textarea, canvas")].filter((e) => {
        const label = e.labels?.length ? e.labels[0].textContent.trim() : "";
        return e.offsetParent && !(label || e.getAttribute("aria-label") || e.textContent.trim());
    }).map((e) => e.outerHTML.slice(0, 80))"""
    assert tab.ask(nameless) == []
    assert tab.ask("document.documentElement.lang") == "en"
    assert "units dead" in tab.ask("$('.network canvas').getAttribute('aria-label')")


FITS = """(() => {
  const out = [];
  for (const e of document.querySelectorAll("body *:not(option)")) {
    const box = e.getBoundingClientRect();
    if (!box.width || e.closest(".hidden, dialog:not([open])")) continue;
    if (box.right > innerWidth + 1 || box.left < -1) out.push("outside: " + e.outerHTML.slice(0, 80));
    const style = getComputedStyle(e);
    const isWide = e.clientWidth && e.scrollWidth > e.clientWidth + 1;
    if (style.display !== "inline" && style.overflowX === "visible" && isWide)
      out.push("clipped: " + e.outerHTML.slice(0, 80));
  }
  return [...out, ...(document.documentElement.scrollWidth > innerWidth ? ["wide"] : [])];
})()"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 800, 1400, 1600])
def test_nothing_is_clipped_at_any_size(at, width, dark):
    tab = at("depth=200&width=32&compare=1&b.method=sep-up&epoch=0&data=own&points=0,0,0;1,1,1")
    tab.size(width, 900, dark=dark)
    tab.ask("$('#settings').open = true")
    time.sleep(0.1)
    assert tab.ask(FITS) == []
    ground = tab.ask("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", ground))) < 60) == dark
    tab.size(1400, 1000)


def test_the_browser_sees_what_does_not_fit(at):
    tab = at()
    tab.ask("document.body.insertAdjacentHTML('beforeend', '<p style=\"width: 5000px\">wide</p>')")
    assert "wide" in tab.ask(FITS)


def test_code_is_shown_to_be_copied(at):
    tab = at("depth=5&width=3&method=skip&epoch=4")
    tab.ask("$('#code').click()")
    shown = tab.ask("text('#python')")
    assert "train(4)" in shown
    assert shown == tab.ask("lab.pytorch(lab.readLink(location.hash).state, 0)")
