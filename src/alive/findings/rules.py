"""The rules: every kind of finding has an id, a level and an explanation, from which its page in docs/rules is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ..errors import expect_one_of

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding.

    by       which command finds it: census, shrink or train
    counts   what a threshold is a number or a share of, in each layer; empty where it holds or does not
    unknown  whether it says that something cannot be told, rather than that something is wrong
    """

    id: str
    name: str
    level: Level
    short: str
    cause: str
    counted: str
    cure: str
    by: Literal["census", "shrink", "train"] = "census"
    counts: str = ""
    unknown: bool = False

    @property
    def title(self) -> str:
        """The id and the name."""
        return f"{self.id} {self.name}"


GRADIENT = "Only a census with the gradient can tell: `--gradient`, or `--loss`."

_ALL = (
    Rule(
        "ALV001",
        "dead units",
        "warning",
        "units that are off, or saturated, for every point of the data",
        "The bias lies too low, the learning rate was too high, or the inputs have moved away from where the unit was "
        "on. A dead ReLU unit gets no gradient, so it does not come back by itself.",
        "A unit is an output feature of a layer, or a channel of a convolution. It is dead if its pre-activation is at "
        "or below the activation's cutoff (0 for ReLU) for every point, at every position: it is off. Where the "
        "activation has a ceiling (6 for ReLU6), a unit at or above it for every point is saturated: it lets as little "
        "through, and counts as dead too. One finding a layer; the threshold is a number of units of the layer, or a "
        "share of them.",
        "`alive.Jumpstart(model)` keeps units alive while the network trains; `alive shrink` removes them if it is "
        "trained; `alive cure` races all cures on your own data.",
        counts="units",
    ),
    Rule(
        "ALV002",
        "dead points",
        "warning",
        "points that a layer maps to all zeros",
        "The layer is thin, or most of its units are off: for some points all of them are. Such a point is the same "
        "as any other dead point from there on, and teaches nothing to the layers below.",
        "A point is dead in a layer if every unit there is off for it, or every one saturated. A finding names the "
        "layer at which points die first; points that were dead before are not counted again. The threshold is a "
        "number of points, or a share.",
        "`alive.Jumpstart(model, mode=\"UP\")` keeps points alive too; make thin layers wider, or start in mirrored "
        "pairs: `alive.nn.initialise_(model, \"mirrored\")`.",
        counts="points",
    ),
    Rule(
        "ALV003",
        "linear units",
        "note",
        "units that are on for every point of the data",
        "The bias lies high, or all inputs of the unit are positive. It passes gradients, and bends nothing: on these "
        "data it is a linear map.",
        "A unit is linear if its pre-activation is above the cutoff for every point, at every position. An activation "
        "that curves where it is on, such as GELU or ELU, still bends there: its units are found only if they stay "
        "where it is straight. Units of layers in which no unit bends are found by ALV004 instead. The threshold is a "
        "number of units of the layer, or a share.",
        "Harmless to gradients. `alive.Jumpstart(model)` makes units bend; `alive shrink` merges linear units.",
        counts="units",
    ),
    Rule(
        "ALV004",
        "a layer that bends nothing",
        "warning",
        "layers in which every unit is dead or linear",
        "No unit is on for some points and off for others, so that the layer multiplies by a matrix. A network of such "
        "layers is a linear map, however deep it is, if nothing else in it bends: a softmax, a tanh, a norm.",
        "A layer bends nothing if it has no nonlinear unit, and no unit that is broken or unknown. Activations that "
        "curve where they are on, such as GELU or ELU, bend wherever a unit is on.",
        "`alive.Jumpstart(model)`; if the network is trained and good enough, `alive shrink` fuses such layers.",
    ),
    Rule(
        "ALV005",
        "numbers that are not finite",
        "error",
        "NaN or infinite pre-activations",
        "The weights or the inputs are too large, or training went astray.",
        "A unit is broken if its pre-activation is NaN or infinite for some point. The threshold is a number of units "
        "of the layer, or a share.",
        "Start anew, at a tenth of the learning rate; look for NaN in the data; clip gradients.",
        counts="units",
    ),
    Rule(
        "ALV006",
        "merged points",
        "error",
        "all points have become one point",
        "The spread of the points falls from layer to layer until the numbers no longer resolve it, as in deep "
        "networks whose start is too small, or where nearly all units are off.",
        "Points have merged if their spread in a layer is below a thousandth of that at first, or below what the "
        "numbers resolve, and no later layer tells them apart again. Layers with a path around them do not count.",
        "Start in mirrored pairs or by Kaiming: `alive.nn.initialise_(model, \"mirrored\")`; norms or skips.",
    ),
    Rule(
        "ALV007",
        "a vanished gradient",
        "error",
        "no gradient arrives at a layer",
        "Each layer passes on less than it gets, and there are many; or all points are dead further up; or nothing "
        "leads back there at all: `torch.no_grad()`, `detach()`, `.data`, numpy or an argmax cuts it off.",
        "The gradient at a layer has vanished if less than 1.2e-7 of that at the output arrives, on average over "
        f"points. It is cut off where autograd finds no way back. {GRADIENT}",
        "A start that keeps the size of signals (`alive.nn.initialise_`), norms, or skips; `alive cure` tries them. "
        "Take out what cuts it off, unless that part is to stay as it is.",
    ),
    Rule(
        "ALV008",
        "an exploded gradient",
        "error",
        "a gradient that grows on its way back until it cannot be used",
        "Each layer passes on more than it gets, as where the start is too large.",
        f"The gradient at a layer has exploded if it is more than 8.4e6 times that at the output. {GRADIENT}",
        "A smaller start (`alive.nn.initialise_(model, \"kaiming\")`), or batch norm where skips add up.",
    ),
    Rule(
        "ALV009",
        "units that are alike",
        "error",
        "all units of every layer do the same",
        "The network starts from constants. Units with the same weights get the same gradients, so they stay the same.",
        "In every layer, all units have the same largest and the same smallest pre-activation over the data.",
        "Start anew with weights that are drawn: `alive.nn.initialise_(model, \"kaiming\")`.",
    ),
    Rule(
        "ALV010",
        "badly scaled inputs",
        "warning",
        "inputs that are far too large, too small, off centre or uneven",
        "Raw columns in units of their own: prices beside shares, years, pixels from 0 to 255.",
        "The size, centre and evenness of the first input over the points are compared with limits that were measured "
        "(docs/advice.md): odd, then grave. Where it is grave, the finding is an error.",
        "`model = torch.nn.Sequential(alive.nn.Standardise(x), model)`.",
    ),
    Rule(
        "ALV011",
        "no point reaches the output",
        "error",
        "every point dies on the way, and no gradient passes",
        "A deep, thin network that is born dead, or one that died in training at too high a rate.",
        "Every point is dead in some layer that lets no gradient through: its activation does not leak, and no path "
        "leads around it. ALV002 is not reported then.",
        "Start in mirrored pairs and keep it alive: `alive.nn.initialise_(model, \"mirrored\")`, `alive.Jumpstart`; "
        "`alive cure` races all cures.",
    ),
    Rule(
        "ALV012",
        "a layer that is unknown",
        "note",
        "a layer whose units or points cannot be told",
        "The layout of its numbers could not be followed: an operation of your own, a sum over the points.",
        "Units and points are followed through each operation of a pass. Where that ends, nothing is guessed.",
        "Say what lies where: `point_axis`, `unit_axes`, `activations` or `outputs` (docs/guide.md, What is unknown).",
        unknown=True,
    ),
    Rule(
        "ALV013",
        "an activation that is not counted",
        "note",
        "a one-sided operation that was noticed and cannot be counted",
        "It is inside TorchScript or a fused call, or its values alone show that it is one-sided.",
        "Every operation whose result is never below its least value is noticed in the first pass; what is no "
        "activation that the census can watch is listed, with its share of the parameters.",
        "Declare the module: `activations={MyReLU: alive.functional.Activation(\"mine\")}`; or write the activation as "
        "a call of torch.",
        unknown=True,
    ),
    Rule(
        "ALV014",
        "batch norms that have seen no data",
        "note",
        "a census of a network whose batch norms do nothing yet",
        "A fresh batch norm has mean 0 and variance 1 in eval mode, which is not what training sees.",
        "A batch norm is unsettled if it has tracked no batch. Then the census gives no verdict on the signal.",
        "Take the census after some steps of training, or judge fresh starts by `alive preflight`, which settles them.",
        unknown=True,
    ),
    Rule(
        "ALV015",
        "a penalty that drowns the task",
        "error",
        "a penalty that pulls much harder at the weights than the task",
        "Its weight is too large for this network, or its aggregate is a sum where a mean was meant.",
        "After training with `--jumpstart`, where next to nothing was learned: the gradient of the penalty is more "
        "than 30 times that of the task (`alive.penalties.pull`).",
        "Use the default weight, which fits every network: `alive.Jumpstart(model)`; or train without it.",
        by="train",
    ),
    Rule(
        "ALV016",
        "latents, codes or experts that nothing chooses",
        "warning",
        "candidates of a selection that no point of the data chooses",
        "Data that lie far from zero, codes that start far from the inputs, or a router that sends everything to a "
        "few experts. What is never chosen gets no gradient.",
        "A latent of a sparse autoencoder is dead if no point chooses it with a value that passes on; a code of a "
        "codebook or an expert, if no point chooses it. Candidates count, not the chosen values alone. One finding a "
        "layer; the threshold is a number of candidates of the layer, or a share of them.",
        "Subtract the mean of the data, seed dead codes anew (`alive.revive`), balance the router; or add "
        "`alive.Jumpstart(model, weight=1e-3, mode=\"U\", against=\"death\")`.",
        counts="candidates",
    ),
    Rule(
        "ALV101",
        "removed: dead units",
        "note",
        "units that shrink removed, because they give zero",
        "They are off for every point of the data, or for every input of the box.",
        "As in ALV001, over the data given (observed) or by proof (certified). One finding a layer.",
        "Take the small network: `alive shrink --out small.safetensors`.",
        by="shrink",
        counts="units",
    ),
    Rule(
        "ALV102",
        "removed: constant units",
        "note",
        "units that shrink removed, because they give one and the same number",
        "Their inputs do not vary, or their weights are zero; what they give moved into the next bias.",
        "A unit is constant if its output is the same for every point, or for every input of the box.",
        "Take the small network: `alive shrink --out small.safetensors`.",
        by="shrink",
        counts="units",
    ),
    Rule(
        "ALV103",
        "removed: unread units",
        "note",
        "units that shrink removed, because all weights that read them are zero",
        "The network was pruned, or a regulariser drove the weights to zero.",
        "By the weights alone; it holds for every input.",
        "Take the small network: `alive shrink --out small.safetensors`.",
        by="shrink",
        counts="units",
    ),
    Rule(
        "ALV104",
        "removed: multiples",
        "note",
        "units that shrink removed, because each is a positive multiple of another",
        "Two units of a layer have weights and bias in one proportion.",
        "By the weights alone; it holds for every input.",
        "Take the small network: `alive shrink --out small.safetensors`.",
        by="shrink",
        counts="units",
    ),
    Rule(
        "ALV105",
        "merged: linear units",
        "note",
        "units that shrink merged, because they never bend",
        "They are on for every point of the data, or for every input of the box.",
        "What the next layer reads from linear units has some rank; so many units are left of them.",
        "Take the small network: `alive shrink --out small.safetensors`.",
        by="shrink",
        counts="units",
    ),
    Rule(
        "ALV106",
        "fused: layers that bend nothing",
        "note",
        "units of layers that shrink fused with the next, because no unit of them bends",
        "Every unit of the layer is linear on the data, or on the box.",
        "Two affine maps after one another are one.",
        "Take the small network: `alive shrink --out small.safetensors`.",
        by="shrink",
        counts="units",
    ),
)  # fmt: skip
RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in _ALL})
OF_REASON: Mapping[str, str] = MappingProxyType(
    dict(zip(("dead", "constant", "unread", "multiple", "linear", "fused"), (f"ALV10{k}" for k in range(1, 7)),
             strict=True))
)  # fmt: skip


def rule(name: str) -> Rule:
    """A rule by its id, in large or small letters; an unknown one is refused with the nearest.

    >>> rule("alv001").name
    'dead units'
    """
    expect_one_of("rule id", name.upper(), RULES)
    return RULES[name.upper()]


def rules_of(command: str) -> list[Rule]:
    """The rules that a command can find."""
    return [rule for rule in RULES.values() if rule.by == command]


def page(rule: Rule) -> str:
    """The page of a rule, as Markdown; docs/rules holds the same."""
    return f"""# {rule.title}

**{_capital(rule.short)}.** Level: {rule.level}. Found by `alive {rule.by}`.

## Cause

{rule.cause}

## How it is counted

{rule.counted}

## Cure

{rule.cure}

## How to silence it

{_silenced(rule)}"""


def _silenced(rule: Rule) -> str:
    if rule.by == "train":
        return (
            "It is said after a run that learned next to nothing, and changes no exit code; a smaller weight ends it.\n"
        )
    counted = f"`--threshold {rule.id}=5%` reports a layer only if more than 5% of its {rule.counts} are concerned; "
    more = f"{counted}`{rule.id}=3`, only if more than 3 are. " if rule.counts else ""
    command = "census mine:make_model" if rule.by == "census" else "shrink mine:make_model"
    return f"""`alive {command} --ignore {rule.id}` leaves it out; `--ignore "{rule.id}:encoder.*"` does so in layers of
that name. {more}The same for good, in `pyproject.toml`:

```toml
[tool.alive]
ignore = ["{rule.id}"]
```
"""


def index(rules: Iterable[Rule]) -> str:
    """All rules as a Markdown table, each with a link to its page."""
    rows = (f"| [{r.id}](rules/{r.id}.md) | {r.level} | {r.name} | {_capital(r.short)}. |" for r in rules)
    return "\n".join(["| id | level | name | what is found |", "|---|---|---|---|", *rows])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
