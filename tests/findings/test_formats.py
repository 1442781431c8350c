"""Census and shrink as JSON, SARIF, JUnit XML and Markdown, each held to a schema or to a reader of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from alive.cli import values
from alive.findings.rules import RULES, index, page, rules_of
from alive.render.schemas import SCHEMAS, schema
from alive.render.sheet import FORMATS
from alive.surgery.shrink.record import REASONS

ROOT = Path(__file__).parents[2]
# The standard's own schema, of OASIS, as the npm package @microsoft/jest-sarif (MIT) brings it.
SARIF = json.loads(Path(__file__).with_name("sarif-2.1.0-rtm.5.json").read_text())
MODELS = ("make_model", "drowned", "healthy", "plain", "broken", "alike", "merged", "vanished", "exploded", "mixed",
          "recurrent", "normed")  # fmt: skip
FOUND = {
    "make_model": {"ALV001", "ALV003"},
    "drowned": {"ALV001", "ALV003", "ALV004", "ALV011"},
    "healthy": set(),
    "plain": {"ALV001", "ALV004", "ALV011"},
    "broken": {"ALV005"},
    "alike": {"ALV009"},
    "merged": {"ALV003", "ALV004", "ALV006", "ALV001"},
    "vanished": {"ALV007"},
    "exploded": {"ALV008"},
    "mixed": {"ALV012"},
    "recurrent": {"ALV013"},
    "normed": {"ALV014"},
}


def valid(document: object, against: object) -> None:
    kind = jsonschema.validators.validator_for(against)
    kind.check_schema(against)
    kind(against).validate(document)


@pytest.mark.filterwarnings("ignore:rnn has its ReLU inside")
@pytest.mark.parametrize("model", MODELS)
def test_json_and_sarif_are_valid_and_say_the_same(alive, mine, model):
    code, out, err = alive("census", f"mine:{model}", "--json", "--gradient")
    assert code == 0, err
    told = json.loads(out)
    valid(told, json.loads(schema("census")))
    found = {(a["rule"], a["layer"]) for a in told["findings"]}
    rules = {rule for rule, _ in found}
    assert FOUND[model] <= rules, rules
    if model == "healthy":
        assert not rules
    code, out, err = alive("census", f"mine:{model}", "--format", "sarif", "--gradient")
    log = json.loads(out)
    valid(log, SARIF)
    run = log["runs"][0]
    assert [run["tool"]["driver"]["rules"][a["ruleIndex"]]["id"] for a in run["results"]] == [
        a["ruleId"] for a in run["results"]
    ]
    assert {
        (a["ruleId"], a["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] if told_layer(a) else "")
        for a in run["results"]
    } == found
    opened = {a["ruleId"] for a in run["results"] if a["kind"] == "open"}
    assert opened == {rule for rule in rules if RULES[rule].unknown}


def told_layer(result) -> bool:
    return bool(result["locations"]) and "logicalLocations" in result["locations"][0]


@pytest.mark.parametrize("model", ["make_model", "drowned"])
def test_counts_in_findings_are_those_of_a_plain_count(alive, mine, model):
    """Against numbers counted by hand with torch alone."""
    import torch

    namespace: dict = {}
    exec((mine / "mine.py").read_text(), namespace)
    net, x = namespace[model](), namespace["make_data"]()
    with torch.no_grad():
        first = net.a(x)
        second = net.b(first.relu())
    dead = {"a": int((first <= 0).all(0).sum()), "b": int((second <= 0).all(0).sum())}
    told = json.loads(alive("census", f"mine:{model}", "--format", "json")[1])
    counted = {a["label"].split()[0]: a["count"] for a in told["findings"] if a["rule"] == "ALV001"}
    assert counted == {name: count for name, count in dead.items() if count}
    assert dead == {"a": 1, "b": 4 if model == "drowned" else 0}


def test_sarif_points_to_the_line_of_the_call(alive, mine):
    assert alive("census", "mine:make_model", "--format", "sarif", "--out", "found.sarif")[0] == 0
    results = json.loads((mine / "found.sarif").read_text())["runs"][0]["results"]
    lines = (mine / "mine.py").read_text().splitlines()
    places = [a["locations"][0]["physicalLocation"] for a in results]
    assert places
    for place in places:
        assert place["artifactLocation"] == {"uri": "mine.py", "uriBaseId": "%SRCROOT%"}
        assert "relu(" in lines[place["region"]["startLine"] - 1]


def test_where_torch_calls_the_activation_the_line_that_makes_the_model_is_named(alive, mine):
    told = json.loads(alive("census", "mine:plain", "--json")[1])
    lines = (mine / "mine.py").read_text().splitlines()
    file, _, line = told["findings"][0]["where"].rpartition(":")
    assert file == "mine.py"
    assert lines[int(line) - 1].startswith("def plain")


def test_junit_fails_for_warnings_and_skips_what_was_not_measured(alive, mine):
    code, out, err = alive("census", "mine:make_model", "--format", "junit", "--ignore", "ALV004")
    assert code == 0, err
    suite = ElementTree.fromstring(out)[0]
    cases = {case.get("name").split()[0]: case for case in suite}
    assert set(cases) == {rule.id for rule in rules_of("census")} - {"ALV004"}
    assert cases["ALV001"].find("failure") is not None
    assert cases["ALV003"].find("failure") is None
    assert "never off" in cases["ALV003"].find("system-out").text
    assert cases["ALV007"].find("skipped") is not None
    counts = [len([case for case in suite if case.find(kind) is not None]) for kind in ("failure", "skipped")]
    assert [suite.get("failures"), suite.get("skipped"), suite.get("tests")] == [*map(str, counts), str(len(cases))]
    with_gradient = ElementTree.fromstring(alive("census", "mine:make_model", "--gradient", "--format", "junit")[1])[0]
    assert [case.get("name") for case in with_gradient if case.find("skipped") is not None] == []


def test_markdown_is_a_table_that_its_reader_can_read(alive, mine):
    from markdown_it import MarkdownIt

    code, out, _ = alive("census", "mine:make_model", "--format", "markdown")
    assert code == 0
    html = MarkdownIt("gfm-like", {"linkify": False}).render(out)
    assert html.count("<table>") == 2
    assert "ALV001" in html
    assert "mine:make_model" in html
    assert "ALV007, ALV008" in html  # not measured


def test_shrink_writes_all_formats(alive, mine):
    code, out, err = alive("shrink", "mine:make_model", "--json")
    assert code == 0, err
    told = json.loads(out)
    valid(told, json.loads(schema("shrink")))
    gone = [(layer["layer"], unit["why"]) for layer in told["layers"] for unit in layer["gone"]]
    assert sum(a["count"] for a in told["findings"]) == len(gone) > 0
    valid(json.loads(alive("shrink", "mine:make_model", "--box", "data", "--format", "json")[1]),
          json.loads(schema("shrink")))  # fmt: skip
    valid(json.loads(alive("shrink", "mine:make_model", "--format", "sarif")[1]), SARIF)
    code, _, err = alive("shrink", "mine:make_model", "--report", "found.xml", "--fail-on", "ALV101")
    assert code == 1
    assert "ALV101 holds" in err
    suite = ElementTree.parse(mine / "found.xml").getroot()[0]
    assert suite.findall("testcase/failure")[0].get("type") == "limit"
    assert "| layer |" in alive("shrink", "mine:make_model", "--format", "markdown")[1]


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_strict_and_published(alive, name):
    against = json.loads(alive("schema", name)[1])
    assert against["additionalProperties"] is False
    with pytest.raises(jsonschema.ValidationError):
        valid({"format": f"alive {name} 1"}, against)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_every_rule_has_its_page(alive, rule):
    file = ROOT / "docs" / "rules" / f"{rule.id}.md"
    assert file.read_text() == page(rule) == alive("rules", rule.id, "--markdown")[1]
    for heading in ("Cause", "How it is counted", "Cure", "How to silence it"):
        assert f"## {heading}\n" in page(rule)
    assert rule.name in alive("rules", rule.id.lower())[1]


def test_lists_of_rules_and_values_agree(alive):
    assert tuple(RULES) == values.RULES
    assert ("table", *FORMATS) == values.FORMATS
    assert SCHEMAS == values.SCHEMAS
    assert {rule.by for rule in RULES.values()} == {"census", "shrink", "train"}
    assert len(rules_of("shrink")) == len(REASONS)
    listed = alive("rules")[1]
    assert re.findall(r"^ALV\d+", listed, re.M) == list(RULES)
    assert index(RULES.values()) in (ROOT / "docs" / "ci.md").read_text()
    assert {path.stem for path in (ROOT / "docs" / "rules").glob("*.md")} == set(RULES)


@pytest.mark.filterwarnings("ignore:rnn has its ReLU inside")
def test_advice_names_a_known_rule_and_the_table_shows_it(alive, mine):
    for model in MODELS:
        out = " ".join(alive("census", f"mine:{model}")[1].split())
        assert set(re.findall(r"\[(ALV\d+)\]", out)) <= set(RULES)
        assert out.count("What to do:") == len(re.findall(r"\[\s*ALV\d+\s*\]", out))


BAD = {
    "unknown rule": (["--ignore", "ALV999"], "unknown rule id 'ALV999'"),
    "unknown rule to fail on": (["--fail-on", "ALV01"], "unknown rule id 'ALV01'"),
    "unknown rule with a threshold": (["--threshold", "ALV77=3"], "unknown rule id"),
    "a threshold of nothing": (["--threshold", "ALV004=3"], "takes no threshold"),
    "a threshold without a number": (["--threshold", "ALV001"], "cannot read the threshold"),
    "another command's rule": (["--fail-on", "ALV101"], "found by alive shrink"),
    "a target that cannot be written": (["--format", "sarif", "--out", "none/x.sarif"], "cannot write none/x.sarif"),
    "a folder": (["--format", "sarif", "--out", "."], "cannot write"),
    "no format": (["--out", "x.txt"], "no format is known for x.txt"),
    "a table": (["--format", "table", "--out", "x.md"], "--format table is printed"),
    "two formats": (["--format", "sarif", "--json"], "both given"),
    "an unknown format": (["--format", "sarf"], "did you mean 'sarif'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(alive, mine, name):
    words, said = BAD[name]
    code, out, err = alive("census", "mine:make_model", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not list(mine.glob("x.*"))


def test_an_unknown_rule_id_is_refused_by_rules_too(alive):
    assert alive("rules", "ALV9")[0] == 2
