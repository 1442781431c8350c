"""The evidence page: every claim once, rules for what is judged, and the page as a browser shows it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from alive_papers.experiments import EXPERIMENTS, Cell, Claim, Experiment, Measured, Row
from alive_papers.experiments.elsewhere import ELSEWHERE
from alive_papers.experiments.papers import PAPERS
from alive_papers.experiments.recorded import Book, Made, Recorded
from alive_papers.experiments.verdicts import Part
from alive_papers.fleet import EpochHealth, Member
from alive_papers.report import ledger
from alive_papers.report.evidence import summary, write_evidence
from alive_papers.report.ledger import Source, anchor, book_of, results_of, sections

ROOT = Path(__file__).parents[3]
MADE = Made("2026-03-01", "a <fine> machine, 2 cores", "alive 0")
FIG2 = EXPERIMENTS["004-Fig2"]
# every figure and table of the five papers, and the theorems of 003
ITEMS = [
    *(f"000-Fig{n}" for n in range(1, 8)),
    *(f"000-T{n}" for n in range(1, 5)),
    *(f"001-Fig{n}" for n in range(1, 13)),
    "001-T1",
    *(f"002-Fig{n}" for n in range(1, 6)),
    *("002-T1", "002-T2", "003-Fig1", "003-T1", "003-T2", "003-T2-ImageNet", "003-theory"),
    *(f"004-Fig{n}" for n in range(1, 5)),
    "004-T1",
]


def planted(cell, best):
    last = EpochHealth(9, 0.1, 0.0, best, best, 0, 0, 0)
    return Row(cell, best, best, last, None, {"epoch": [0.0, 9.0], "train_accuracy": [0.5, best]})


def source(experiment=FIG2, *, done=None, architecture="dense"):
    """A run at the quick scale in which Sep-UP trains to 60 layers and all else to 10."""
    cells = experiment.cells("quick", architecture=architecture)
    reach = [60 if cell.member.method == "Sep-UP" else 10 for cell in cells]
    rows = [planted(cell, 1.0 if cell.member.depth <= top else 0.5) for cell, top in zip(cells, reach, strict=True)]
    return Source.of(Part(experiment, "quick", architecture, 1, rows[:done], cells), MADE)


def recorded(claim, ours, *, scale="quick", seeds=1, date="2026-02-01", architecture="dense", cells=None):
    cells = cells or ledger._digest("004-Fig2", claim, scale, architecture)
    made = replace(MADE, date=date)
    command = f"alive reproduce 004-Fig2 --scale {scale} --seeds {seeds}"
    return Recorded("004-Fig2", claim, scale, architecture, seeds, 80, Measured(ours, seeds, 0.0), made, command, cells)


def book(*numbers):
    return Book(numbers, Book.read().forward)


def judged(sources, numbers, claim="width-3-jumpstart"):
    asked = next(each for each in FIG2.claims if each.id == claim)
    return results_of(FIG2, asked, sources, Book(tuple(numbers)))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page with a complete run, two partial ones, recorded numbers and pictures."""
    numbers = (recorded("width-25-jumpstart", 100, scale="paper", seeds=10),)
    sources = [source(), source(done=30, architecture="keras_same"), source(EXPERIMENTS["001-Fig1"], done=90)]
    return write_evidence(sources, book(*numbers), tmp_path_factory.mktemp("page"))


@pytest.mark.contract
def test_every_claim_is_on_the_page_once(page):
    text = page.read_text()
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    wanted = [anchor(each.name, claim.id) for each in (*EXPERIMENTS.values(), *ELSEWHERE) for claim in each.claims]
    assert len(set(wanted)) == len(wanted)
    rows = re.findall(r'<tr id="([^"]*)"', text)
    assert sorted(rows) == sorted(wanted)
    for experiment in EXPERIMENTS.values():
        for claim in experiment.claims:
            assert html.escape(claim.sentence, quote=False) in text.replace("&#39;", "'")


@pytest.mark.parametrize("item", ITEMS)
def test_every_figure_and_table_of_the_papers_has_a_place(page, item):
    text = page.read_text()
    place = re.search(rf'<a href="#([^"]*)">{item}</a>', text)
    assert place
    assert f'<section id="{place[1]}">' in text


def test_the_page_stands_alone_and_escapes(page):
    text = page.read_text()
    assert not re.search(r"https?://|<link|@import|<script src", text)
    assert "a &lt;fine&gt; machine" in text
    assert "a <fine>" not in text
    assert '<form id="filters" hidden>' in text, "without a script there is nothing to press"
    assert text.count('src="data:image/svg+xml;base64,') == 3  # heat maps
    assert [file.name for file in page.parent.iterdir()] == ["evidence.html"]


def test_what_is_not_run_says_what_it_takes(page):
    text = re.sub(r"<[^>]*>", "", page.read_text())
    assert re.search(r"not run here: needs [\d,.]+ GPU-hours", text)
    assert "210 networks × 400 epochs × 50,000 images × 3 × " in text
    assert "6 networks × 30 epochs × 1,281,167 images × 3 × " in text
    assert "1 network × 700,000 steps × 256 images × 3 × " in text
    assert "ImageNet is not read by alive" in text


def test_tests_that_are_named_exist():
    named = {test for each in ELSEWHERE for claim in each.claims for test in claim.tests}
    assert len(named) > 20
    for test in named:
        file, _, function = test.partition("::")
        assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.M), test


def test_a_claim_elsewhere_is_shown_by_tests_or_says_why_it_is_not_run():
    for each in ELSEWHERE:
        assert each.reason
        for claim in each.claims:
            shown = bool(claim.tests), bool(each.works()), claim.ours is not None and bool(each.command)
            assert sum(shown) == 1


def test_of_store_and_record_most_seeds_count_then_the_newest():
    claim = "width-3-jumpstart"
    (mine,) = judged([source()], [recorded(claim, 10)])
    assert (mine.ours, mine.number.made.date, mine.verdict) == ("60", MADE.date, "not decided")
    (theirs,) = judged([source()], [recorded(claim, 10, date="2026-04-01")])
    assert (theirs.ours, theirs.verdict) == ("10", "not decided")
    (many,) = judged([source()], [recorded(claim, 50, seeds=2)])
    assert (many.ours, many.number.seeds) == ("50 ± 0", 2)


def test_the_papers_scale_comes_first_and_its_architecture():
    claim = "width-3-jumpstart"
    numbers = [
        recorded(claim, 1, scale="quick", architecture="keras_same"),
        recorded(claim, 2, scale="paper"),
        recorded(claim, 3, scale="paper", architecture="keras_same"),
    ]
    found = judged([source()], numbers)
    assert [(each.where, each.ours) for each in found] == [
        ("paper, keras_same", "3"),
        ("paper", "2"),
        ("quick, keras_same", "1"),
        ("quick", "60"),
    ]


def test_a_partial_run_is_shown_and_neither_judged_nor_recorded():
    partial = source(done=30)
    (found,) = judged([partial], [], "width-3-baseline")
    assert (found.verdict, found.progress) == ("partial", "6 of 8 networks")
    assert not partial.numbers
    kept = book_of([partial, source(architecture="keras_same")], book()).numbers
    assert {each.architecture for each in kept} == {"keras_same"}
    assert [each.claim for each in kept] == [claim.id for claim in FIG2.claims]
    (complete,) = judged([partial], [recorded("width-3-baseline", 10)], "width-3-baseline")
    assert complete.verdict == "not decided"


def test_a_claim_is_judged_when_all_that_it_reads_is_there(tmp_path):
    fig5 = EXPERIMENTS["001-Fig5"]
    claim = next(each for each in fig5.claims if each.id == "sep-p-depth")
    cells = fig5.cells("paper", seeds=2)
    read = claim.reads(cells)
    assert {(cell.label, cell.member.width) for cell in read} == {("Sep-P", 3)}
    assert len(read) == 2 * 13
    rows = [planted(cell, 1.0 if cell.member.depth <= 40 else 0.5) for cell in read]
    part = Part(fig5, "paper", "dense", 2, rows[:-1], cells)
    (number,) = Source.of(part, MADE).numbers
    assert (number.claim, number.seeds, number.networks, number.measured.ours) == ("sep-p-depth", 1, 13, 40)
    assert number.command == "alive reproduce 001-Fig5 --scale paper --seeds 1 --claim sep-p-depth"
    (number,) = Source.of(replace(part, rows=rows), MADE).numbers
    assert (number.seeds, number.networks, number.measured.n) == (2, 26, 2)


def test_numbers_of_other_settings_are_marked_and_of_unknown_things_left_out():
    (found,) = judged([], [recorded("width-3-jumpstart", 60, cells="0" * 16, scale="paper", seeds=9)])
    assert (found.stale, found.verdict) == (True, "not run")
    assert not judged([source()], [recorded("width-3-jumpstart", 60, cells="0" * 16, seeds=9)])[0].stale
    (found,) = judged([], [recorded("width-3-jumpstart", 60)])
    assert not found.stale
    gone = replace(recorded("width-3-jumpstart", 60, cells="0"), architecture="gone")
    assert judged([], [gone, replace(gone, architecture="dense", experiment="gone")]) == ()


def test_the_summary_counts_every_claim_once():
    found = sections([source()], book(recorded("width-25-jumpstart", 100, scale="paper")))
    counts = summary(found)
    assert list(counts) == ["000", "001", "002", "003", "004", "ours"]
    claims = sum(len(each.claims) for each in (*EXPERIMENTS.values(), *ELSEWHERE))
    assert sum(sum(count.values()) - count["full"] for count in counts.values()) == claims
    assert counts["004"]["full"] == 1
    assert counts["004"]["reproduced"] == 1
    assert counts["004"]["not decided"] > 1


def test_a_difference_is_explained_beside_it(monkeypatch, tmp_path):
    def measure(rows):
        return Measured(rows[0].best_train, 1, 0.0) if rows else None

    claims = [
        Claim(name, f"claim {name}", measure, band, why=f"because {name} & co")
        for name, band in (("off", (2, 3)), ("on", (0, 1)))
    ]
    cell = Cell(Member(2, 4))
    made = Experiment("001-T1", "one", "001 Paper, Table 1", lambda *_: [cell], tuple(claims))
    for module in ("alive_papers.report.ledger", "alive_papers.experiments"):
        monkeypatch.setattr(f"{module}.EXPERIMENTS", {"001-T1": made})
    ledger._digest.cache_clear()
    ledger._cells.cache_clear()
    one = Source.of(Part(made, "paper", "dense", 1, [planted(cell, 0.7)], [cell]), MADE)
    text = write_evidence([one], book(), tmp_path).read_text()
    ledger._digest.cache_clear()
    ledger._cells.cache_clear()
    assert "because off &amp; co" in text
    assert "because on" not in text


def test_the_command_writes_page_and_record(alive, tmp_path):
    assert alive("reproduce", "001-T1", "--threads", 1)[0] == 0
    other = recorded("width-3-jumpstart", 60)
    book(other).write(tmp_path / "r.json")
    code, out, _ = alive("report", "--all", "--record", "r.json", "--out", "page")
    assert (code, out.split()) == (0, ["r.json", "page/evidence.html"])
    after = Book.read(tmp_path / "r.json").numbers
    assert other in after
    here = {each.claim: each for each in after if each != other}
    assert here.keys() == {claim.id for claim in EXPERIMENTS["001-T1"].claims}
    assert here["Sep-UP-train"].command == "alive reproduce 001-T1 --scale quick --seeds 1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", here["Sep-UP-train"].made.date)
    assert "1 of 1 networks" in (tmp_path / "page" / "evidence.html").read_text()


def test_more_seeds_that_are_half_done_leave_the_complete_ones(alive, tmp_path):
    from alive_papers.run import Run, Store
    from alive_papers.study import _sources

    assert alive("reproduce", "001-T1", "--threads", 1)[0] == 0
    with Store(tmp_path / "alive.sqlite") as store:
        store.ask(Run("001-T1", "quick", "dense", 3))
    (found,) = _sources([tmp_path / "alive.sqlite"])
    assert (len(found.part.rows), found.part.asked, found.part.complete) == (5, 15, False)
    assert {(number.seeds, number.networks) for number in found.numbers} == {(1, 1)}
    assert len(found.numbers) == 15  # two accuracies and a loss of five methods


def test_without_a_store_the_page_has_what_is_recorded(alive, tmp_path):
    code, out, _ = alive("report", "--all")
    assert (code, out.strip()) == (0, "alive-report/evidence.html")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--all", "--store", "no.sqlite"), "there is no store no.sqlite"),
        (("--record", "r.json"), "there is no store alive.sqlite"),
        (("--record", "no/r.json", "--store", "no.sqlite"), "cannot write no/r.json"),
        (("--store", "a", "--store", "b"), "name one --store, or add --all"),
    ],
)
def test_what_is_refused(alive, args, message):
    code, _, err = alive("report", *args)
    assert code == 2
    assert message in err


# The browser: the page in frames of two widths, each with a script that looks at it and tells the page around them.

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (400, 1400)
LISTEN = """<script>
window.faults = [];
addEventListener("error", (e) => faults.push("error: " + (e.message || e.target.outerHTML.slice(0, 80))), true);
addEventListener("securitypolicyviolation", (e) => faults.push("refused: " + e.blockedURI));
console.error = (...said) => faults.push("console: " + said.join(" "));
</script>"""
LOOK = """<script>
addEventListener("load", async () => {
  const all = (what) => [...document.querySelectorAll(what)];
  const name = (e) => e.tagName + " " + e.textContent.trim().slice(0, 40);
  all("details").forEach((e) => { e.open = true; });
  all("img").forEach((e) => { e.loading = "eager"; });
  await Promise.all(all("img").map((e) => e.decode().catch(() => 0)));
  for (const e of all("img")) if (!e.naturalWidth) faults.push("no picture");
  for (const e of all("a")) {
    const to = e.getAttribute("href");
    if (!to.startsWith("#") || !document.getElementById(to.slice(1))) faults.push("dead link " + to);
  }
  for (const e of all("body *:not(script):not(option)")) {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (!box.width) continue;
    if (box.right > innerWidth + 1 || box.left < -1) faults.push("outside: " + name(e));
    const wide = e.clientWidth && e.scrollWidth > e.clientWidth + 1;
    if (style.display !== "inline" && wide) faults.push("clipped: " + name(e));
  }
  const body = document.querySelector("#claims tbody"), form = document.getElementById("filters");
  const shown = () => [...body.rows].filter((row) => row.getClientRects().length);
  const found = { width: innerWidth, rows: shown().length, hidden: form.hidden };
  const [first] = shown(); found.share = first.cells[1].offsetWidth / first.offsetWidth;
  document.querySelectorAll("#claims thead button")[3].click();
  found.sorted = shown().map((row) => row.cells[3].dataset.value).filter((v) => v !== "").map(Number);
  found.order = shown()[0].id;
  form.elements.verdict.value = "partial"; form.dispatchEvent(new Event("input"));
  found.partial = shown().map((row) => row.dataset.verdict);
  found.said = form.querySelector("output").textContent;
  form.elements.verdict.value = ""; form.elements.paper.value = "003"; form.dispatchEvent(new Event("input"));
  found.papers = [...new Set(shown().map((row) => row.dataset.paper))];
  location.hash = "004-Fig2.five-fold";
  await new Promise((done) => setTimeout(done, 50));
  found.revealed = shown().some((row) => row.id === "004-Fig2.five-fold");
  parent.postMessage({ ...found, faults: [...new Set(faults)] }, "*");
});
</script>"""


def look(page, folder):
    """What the page says of itself at both widths, and what Chromium logs."""
    watched = page.replace("<head>", f"<head>{LISTEN}").replace("</body>", f"{LOOK}</body>")
    (folder / "watched.html").write_text(watched)
    frames = "".join(f'<iframe src="watched.html" style="width:{w}px;height:900px;border:0"></iframe>' for w in WIDTHS)
    (folder / "frames.html").write_text(
        f"<!doctype html><body>{frames}<pre></pre><script>const all = []; addEventListener('message', (e) => "
        "{ all.push(e.data); document.querySelector('pre').textContent = JSON.stringify(all); });</script></body>"
    )
    options = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-dev-shm-usage"
    )
    done = subprocess.run(
        [CHROMIUM, *options.split(), "--window-size=1500,1900", "--enable-logging=stderr",
         "--virtual-time-budget=20000", f"--user-data-dir={folder / 'profile'}", "--dump-dom",
         (folder / "frames.html").as_uri()],
        capture_output=True, text=True, timeout=150, check=True,
    )  # fmt: skip
    told = re.search(r"<pre>(.+)</pre>", done.stdout, re.S)
    assert told, f"the page said nothing: {done.stderr[-2000:]}"
    found = {each["width"]: each for each in json.loads(html.unescape(told[1]))}
    return found, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path; apt-get install chromium")
def test_in_a_browser_nothing_is_clipped_and_everything_works(page, tmp_path):
    found, console = look(page.read_text(), tmp_path)
    assert console == []
    assert set(found) == set(WIDTHS)
    claims = sum(len(each.claims) for each in (*EXPERIMENTS.values(), *ELSEWHERE))
    for one in found.values():
        assert one["faults"] == []
        assert (one["rows"], one["hidden"]) == (claims, False)
        assert one["sorted"] == sorted(one["sorted"])
        assert len(one["sorted"]) >= len(FIG2.claims)
        assert set(one["partial"]) == {"partial"}
        assert one["said"] == f"{len(one['partial'])} of {claims} claims"
        assert one["papers"] == ["003"]
        assert one["revealed"]
    assert found[400]["share"] > 0.8, "where cells stand below each other a sentence has the whole width"


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on the path; apt-get install chromium")
def test_the_browser_sees_what_is_spoilt(page, tmp_path):
    spoilt = (
        '<p style="width:5000px">wide</p>'
        '<div style="width:50px;overflow:hidden;white-space:nowrap">a long clipped line</div>'
        '<a href="#nowhere">x</a><img src="data:image/png;base64,AAAA"><script>missing()</script>'
        '<img src="https://example.invalid/x.png">'
    )
    text = re.sub(r'src="data:[^"]*"', 'src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="', page.read_text())
    found, _ = look(text.replace("</body>", f"{spoilt}</body>"), tmp_path)
    said = "\n".join(found[400]["faults"])
    for fault in (
        "outside: P wide",
        "clipped: DIV a long",
        "dead link #nowhere",
        "no picture",
        "missing",
        "refused: https",
    ):
        assert fault in said, said


# The papers.


def test_the_readme_and_the_page_name_the_papers(page):
    table = (ROOT / "docs" / "papers.md").read_text().split("##")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\| 00.*", table, re.M)]
    assert rows == [[each.number, each.authors, each.title, str(each.year)] for each in PAPERS.values()]
    text = html.unescape(page.read_text())
    for each in PAPERS.values():
        for word in (each.authors, each.title, str(each.year)):
            assert word in text
    numbered = {each.paper[:3]: each.paper.partition(",")[0] for each in (*EXPERIMENTS.values(), *ELSEWHERE)}
    assert {number: f"{number} {each.short}" for number, each in PAPERS.items()}.items() <= numbered.items()


def test_the_list_of_experiments_says_which_paper_is_which(alive):
    code, out, _ = alive("reproduce")
    assert code == 0
    out = " ".join(out.split())
    for each in PAPERS.values():
        assert f"{each.number} {each.authors.split(',')[0].split(' and ')[0]}" in out
