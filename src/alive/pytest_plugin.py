"""`pytest --alive=mine:make_model`: a test for every rule that a model may break; and a fixture, `check_cure`.

Installed with alive, and asleep unless that option is given or the fixture is used: then alone is torch imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .errors import AliveError

if TYPE_CHECKING:
    from .diagnosis import Census
    from .findings.conditions import Condition
    from .findings.finding import Place
    from .findings.policy import Policy

USUAL = ("warning",)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; nothing else happens without --alive."""
    group = parser.getgroup("alive", "dead units and points of a model")

    def option(name: str, metavar: str, text: str, **more: Any) -> None:
        group.addoption(f"--alive{name}", dest=f"alive{name}".replace("-", "_"), metavar=metavar, help=text, **more)

    many: dict[str, Any] = {"action": "append", "default": []}
    option("", "MODEL", "Test a model, named as alive census does: mine:make_model. As often as needed.", **many)
    option("-data", "DATA", "Its data; by default make_data beside the model.")
    option("-points", "N", "So many points, drawn at random.", type=int)
    option("-fail-on", "WHAT", 'A rule id, a level (by default warning), or a limit: "dead_units>5%%".', **many)
    option("-ignore", "IDS", "Rules to leave out: ALV003, ALV003:head.*", **many)
    option("-threshold", "ID=N", "From how much on a rule counts: ALV001=5%%.", **many)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the tests of the models that were asked for, before others choose among all."""
    models: list[str] = config.getoption("alive")
    if not models:
        return
    try:
        items.extend(_items(session, config, models))
    except AliveError as error:
        raise pytest.UsageError(f"alive: {error}") from None


def _items(session: pytest.Session, config: pytest.Config, models: list[str]) -> Iterator[pytest.Item]:
    from .findings.conditions import condition
    from .findings.finding import LEVELS
    from .findings.policy import of_project, policy
    from .findings.rules import RULES

    typed = {name: config.getoption(f"alive_{name}") for name in ("ignore", "threshold", "fail_on")}
    asked = of_project(Path.cwd()).plus(policy(**typed))
    conditions = [condition(text, "census", asked) for text in asked.fail_on or USUAL]
    single = [
        condition(name, "census", asked) if each.text in LEVELS else each
        for each in conditions
        for name in (each.rules if each.text in LEVELS else ("",))
    ]
    for model in models:
        subject = Subject(model, config, asked, any(each.wants_gradient for each in single))
        for each in dict.fromkeys(single):
            title = RULES[each.text].title if each.text in RULES else each.text
            name = f"alive::{model}::{title}"
            yield AliveItem.from_parent(session, name=name, nodeid=name, subject=subject, condition=each)


@pytest.fixture
def check_cure() -> Callable[..., Any]:
    """`alive.check_cure`, which fails the test where it finds a fault."""

    def checked(*args: Any, **options: Any) -> Any:
        from .proof import check_cure

        found = check_cure(*args, **options)
        if found.faults:
            pytest.fail(str(found), pytrace=False)
        return found

    return checked


class Subject:
    """One model; its census is taken once, when the first test asks for it."""

    def __init__(self, model: str, config: pytest.Config, policy: Policy, gradient: bool) -> None:
        self.model, self.policy = model, policy
        self._config, self._gradient = config, gradient
        self._known: tuple[Census, tuple[Place, ...]] | None = None

    def known(self) -> tuple[Census, tuple[Place, ...]]:
        """The census, and its findings."""
        if self._known is None:
            self._known = self._count()
        return self._known

    def _count(self) -> tuple[Census, tuple[Place, ...]]:
        from . import diagnosis
        from .cli import sources
        from .cli.own import Typed
        from .findings.policy import places

        points = self._config.getoption("alive_points")
        typed = Typed(self.model, self._config.getoption("alive_data"), points=points)
        opened = sources.opened(typed)
        network = opened.model()
        found = diagnosis.census(network, opened.batches(network), gradient=self._gradient)
        return found, places(found.findings, self.policy, made_at=opened.make.line)


class AliveItem(pytest.Item):
    """One rule, or one limit, and one model."""

    def __init__(self, *, subject: Subject, condition: Condition, **more: Any) -> None:
        super().__init__(**more)
        self.subject, self.condition = subject, condition

    def runtest(self) -> None:
        """Fail where the condition holds, or cannot be ruled out."""
        census, findings = self.subject.known()
        if why := self.condition.failed(findings, census, self.subject.policy):
            own = [a for a in findings if a.rule in self.condition.rules]
            told = [f"{a.where}{': ' * bool(a.where)}{a.message}. What to do: {a.do}" for a in own]
            raise AliveError(".\n".join(told or [why]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """One sentence for what alive found or refuses; anything else as usual."""
        if isinstance(excinfo.value, AliveError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """How the test is called."""
        return Path.cwd(), None, self.name
