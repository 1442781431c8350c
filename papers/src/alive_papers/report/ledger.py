"""Claims beside numbers: every claim of the experiments and of what is shown elsewhere, with all numbers there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from shlex import quote

from ..experiments import EXPERIMENTS, Cell, Claim, Experiment, Measured
from ..experiments.effort import Effort, count, digest, effort, loads, works_of
from ..experiments.elsewhere import ELSEWHERE, Elsewhere, Stated
from ..experiments.recorded import Book, Made, Recorded, best
from ..experiments.spec import DIFFERS, NOT_RUN, PARTIAL, REPRODUCED, SCALES, UNDECIDED
from ..experiments.verdicts import Judged, Part, judge

BY_TESTS = "shown by tests"
VERDICTS = (REPRODUCED, DIFFERS, UNDECIDED, PARTIAL, NOT_RUN, BY_TESTS)
PREFERRED = ("keras_same", "dense")  # the first made the published heat maps
OURS = "ours"


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """An experiment in a store, as far as it is done: its rows, and the claims that can be measured on them."""

    part: Part
    results: tuple[Result, ...]

    @classmethod
    def of(cls, part: Part, made: Made) -> Source:
        """Measure what there is."""
        return cls(part, tuple(_result(judged, made, part) for judged in judge(part) if judged.measured is not None))

    @property
    def numbers(self) -> tuple[Recorded, ...]:
        """Those of claims whose networks are all there."""
        return tuple(result.number for result in self.results if result.verdict != PARTIAL)


@dataclass(frozen=True, slots=True)
class Result:
    """A number beside a claim: recorded or from a store; for a partial run, with how many of its networks are done."""

    number: Recorded
    verdict: str
    done: int
    stale: bool = False

    @property
    def ours(self) -> str:
        """Mean and standard deviation, for people."""
        return said(self.number.measured)

    @property
    def where(self) -> str:
        """Scale, and the architecture where it is not the dense one."""
        other = self.number.architecture
        return self.number.scale + ("" if other == "dense" else f", {other}")

    @property
    def progress(self) -> str:
        """How much of it is done."""
        return f"{self.done:,} of {self.number.networks:,} networks"


@dataclass(frozen=True, slots=True)
class Line:
    """One claim on the page."""

    anchor: str
    item: str
    paper: str
    claim: Claim | Stated
    verdict: str
    results: tuple[Result, ...]
    needs: str
    command: str

    @property
    def lead(self) -> Result | None:
        """The number that is judged."""
        return self.results[0] if self.results else None

    @property
    def published(self) -> str:
        """The paper's number; a dash where it gives none."""
        return "–" if self.claim.published is None else figures(self.claim.published, 6)

    @property
    def off(self) -> str:
        """How many standard deviations of ours the published number lies from our mean, where both are there."""
        if self.lead is None or isinstance(self.claim, Stated):
            return ""
        off = self.claim.deviations(self.lead.number.measured)
        return "" if off is None else f"{off:+.1f}"

    @property
    def band(self) -> str:
        """Between which numbers ours confirms it."""
        if self.claim.band is None:
            return ""
        low, high = self.claim.band
        return f"{figures(low)} to {figures(high)}" if low < high else figures(low)

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that show it."""
        return self.claim.tests if isinstance(self.claim, Stated) else ()

    @property
    def why(self) -> str:
        """What explains a difference, where there is one."""
        return self.claim.why if self.verdict in (DIFFERS, UNDECIDED, BY_TESTS) else ""


@dataclass(frozen=True, slots=True)
class Section:
    """A figure, table or theorem: its claims, the runs there are, what it takes."""

    subject: Experiment | Elsewhere
    lines: tuple[Line, ...]
    runs: tuple[Result, ...]
    effort: Effort

    @property
    def name(self) -> str:
        """The name of the experiment, and its anchor in the page."""
        return self.subject.name

    @property
    def paper(self) -> str:
        """Number of the paper, or "ours"."""
        return paper_of(self.name)

    @property
    def shows(self) -> tuple[str, ...]:
        """Figures and tables of the paper that are here."""
        return (self.name, *(each for each in shown(self.subject.paper) if each != self.name))


def said(measured: Measured) -> str:
    """Mean and standard deviation, for people.

    >>> said(Measured(0.91764, 10, 0.2512)), said(Measured(60, 1, 0))
    ('0.9176 ± 0.25', '60')
    """
    return figures(measured.ours) + (f" ± {figures(measured.spread, 2)}" if measured.n > 1 else "")


def figures(value: float, count: int = 4) -> str:
    """At most so many significant figures, and never an exponent.

    >>> figures(12.51), figures(0.000123456), figures(10_000.4), figures(0.0)
    ('12.51', '0.0001235', '10,000', '0')
    """
    if abs(value) >= 10**count or value == round(value):
        return f"{value:,.0f}"
    return f"{float(f'{value:.{count}g}'):.12f}".rstrip("0").rstrip(".")


def paper_of(name: str) -> str:
    """Which paper an experiment belongs to.

    >>> paper_of("001-Fig1"), paper_of("atlas")
    ('001', 'ours')
    """
    return name[:3] if name[:3].isdigit() else OURS


def shown(paper: str) -> list[str]:
    """The figures and tables that a reference names, by their ids.

    >>> shown("003 Identity matters, Tables 1 and 2, Figure 1")
    ['003-T1', '003-T2', '003-Fig1']
    """
    kinds = {"Table": "T", "Figure": "Fig"}
    found = re.findall(r"(Table|Figure)s? ((?:\d+(?:, | and )?)+)", paper)
    return [f"{paper[:3]}-{kinds[kind]}{each}" for kind, some in found for each in re.findall(r"\d+", some)]


def anchor(item: str, claim: str) -> str:
    """The place of a claim in the page.

    >>> anchor("002-T2", "VAN (λ=0)-26-cifar10")
    '002-T2.VAN-0-26-cifar10'
    """
    words = re.sub(r"[^A-Za-z0-9.]+", "-", claim).strip("-")
    return f"{item}.{words}"


def book_of(sources: Sequence[Source], known: Book) -> Book:
    """What to record: numbers of complete runs, better ones known before, and the FLOP of all networks."""
    numbers = best((*(each for source in sources for each in source.numbers), *known.numbers), _stale)
    cells = (cell for each in EXPERIMENTS.values() for scale in each.scales for cell in each.cells(scale))
    works = [*works_of(cells), *(one for each in ELSEWHERE for one in each.works())]
    return Book(numbers, count(works, known.forward))


def sections(sources: Sequence[Source], book: Book) -> list[Section]:
    """Everything on the page but pictures, paper by paper."""
    some = [_of_experiment(experiment, sources, book) for experiment in EXPERIMENTS.values()]
    return sorted([*some, *(_of_elsewhere(each, book) for each in ELSEWHERE)], key=lambda section: order(section.name))


def results_of(experiment: Experiment, claim: Claim, sources: Sequence[Source], book: Book) -> tuple[Result, ...]:
    """All numbers for a claim, the one to be judged first: complete before partial, the paper's scale before quick."""
    mine = [source for source in sources if source.part.experiment.name == experiment.name]
    known = (each for each in book.numbers if each.architecture in experiment.architectures)
    some = (*(each for source in mine for each in source.numbers), *known)
    numbers = best((each for each in some if each.place[:2] == (experiment.name, claim.id)), _stale)
    results = {
        each.place: Result(each, experiment.verdict(claim, each.measured, each.scale), each.networks)
        if not _stale(each)
        else Result(each, NOT_RUN, each.networks, stale=True)
        for each in numbers
    }
    begun = (each for source in mine for each in source.results if each.verdict == PARTIAL)
    for result in sorted(begun, key=lambda each: -each.done):
        if result.number.claim == claim.id:
            results.setdefault(result.number.place, result)
    return tuple(sorted(results.values(), key=_first))


def _of_experiment(experiment: Experiment, sources: Sequence[Source], book: Book) -> Section:
    lines = []
    efforts = {scale: effort(experiment, scale, book.forward) for scale in experiment.scales}
    for claim in experiment.claims:
        results = results_of(experiment, claim, sources, book)
        scale = claim.scales[-1]
        lines.append(
            Line(
                anchor=anchor(experiment.name, claim.id),
                item=experiment.name,
                paper=paper_of(experiment.name),
                claim=claim,
                verdict=results[0].verdict if results else NOT_RUN,
                results=results,
                needs=efforts[scale].needs,
                command=f"alive reproduce {experiment.name} --scale {scale}",
            )
        )
    runs: dict[str, Result] = {}
    for result in (result for line in lines for result in line.results):
        runs.setdefault(f"{result.number.command} {result.progress} {result.number.made}", result)
    return Section(experiment, tuple(lines), tuple(sorted(runs.values(), key=_first)), efforts["paper"])


def _of_elsewhere(each: Elsewhere, book: Book) -> Section:
    takes = Effort(loads(each.works(), book.forward))
    lines = (
        Line(
            anchor=anchor(each.name, claim.id),
            item=each.name,
            paper=paper_of(each.name),
            claim=claim,
            verdict=BY_TESTS if claim.tests else _measured(each, claim)[0].verdict if claim.ours else NOT_RUN,
            results=_measured(each, claim),
            needs=takes.needs,
            command=each.command,
        )
        for claim in each.claims
    )
    return Section(each, tuple(lines), (), takes)


def _measured(each: Elsewhere, claim: Stated) -> tuple[Result, ...]:
    """What a benchmark measured."""
    if claim.ours is None or claim.band is None or each.made is None:
        return ()
    low, high = claim.band
    number = Recorded(each.name, claim.id, SCALES[-1], PREFERRED[-1], 1, 1, claim.ours, each.made, each.command, "")
    return (Result(number, REPRODUCED if low <= claim.ours.ours <= high else DIFFERS, 1),)


def _result(judged: Judged, made: Made, whole: Part) -> Result:
    """A number of a run that is there, as one that can be recorded."""
    part, claim = judged.part, judged.claim.id
    assert judged.measured is not None
    place = part.experiment.name, claim, part.scale, part.architecture
    command = part.command + ("" if whole.complete else f" --claim {quote(claim)}")
    digest = _digest(*place, tuple(part.revisions.items()))
    number = Recorded(*place, part.seeds, part.asked, judged.measured, made, command, digest)
    return Result(number, judged.verdict, len(part.rows))


def _first(result: Result) -> tuple[bool, int, int]:
    number = result.number
    judges = result.verdict != PARTIAL and not result.stale
    return not judges, -SCALES.index(number.scale), PREFERRED.index(number.architecture)


def order(name: str) -> tuple[str, int, int, str]:
    """Papers by number, their figures, their tables, their theorems; then ours."""
    found = re.fullmatch(r"\d+-(Fig|T)(\d+)(.*)", name)
    if found is None:
        return paper_of(name), 2, 0, name
    return paper_of(name), ("Fig", "T").index(found[1]), int(found[2]), found[3]


def _stale(number: Recorded) -> bool:
    """Whether the experiment has other settings now, or its engine another revision, than when the number was made."""
    return _digest(*number.place) != number.cells


@cache
def _cells(experiment: str, scale: str, architecture: str) -> list[Cell]:
    return EXPERIMENTS[experiment].cells(scale, architecture=architecture)


@cache
def _digest(
    experiment: str, claim: str, scale: str, architecture: str, trained_by: tuple[tuple[str, int], ...] = ()
) -> str:
    """What a claim reads of one seed, as others have the same settings; at these revisions of engines, else today's."""
    revisions = dict(trained_by)
    asked = [each for each in EXPERIMENTS[experiment].claims if each.id == claim]
    cells = [cell for each in asked for cell in each.reads(_cells(experiment, scale, architecture))]
    return digest(cell.at(revisions.get(cell.member.engine, cell.revision)) for cell in cells)
