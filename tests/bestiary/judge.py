"""The brute force: states, penalty and gradient from layouts laid out by hand, and what alive makes of the same model.

Shares no code with what it judges. A verdict is *right*, *told* (alive says that it does not know, and all that it does
say is true), *silent* (wrong without a word) or *crash*.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import choosers
import torch
from case import Case, Layer
from notebook import run
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

import alive
from alive.errors import AliveError

STATES = ("dead", "linear", "nonlinear", "broken")
RANK = {"right": 0, "told": 1, "silent": 2, "crash": 3}
SEED = 12

ANOTHER = "with another gradient"

Ends = dict[Any, tuple[float, float]]
Counts = dict[Any, tuple[int, int]]


@dataclass(frozen=True)
class Verdict:
    """What alive made of one beast."""

    name: str
    kind: str
    census: str
    penalty: str
    untouched: bool
    why: str


class Found(NamedTuple):
    """A judgement on one question, and its grounds."""

    verdict: str
    why: str = ""


def judge(case: Case) -> Verdict:
    """Census, penalty, gradient and the model afterwards, against the layouts of the case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual = _usual_warnings(case)
        counted, changed = _judge_census(case, usual)
        penalty, changed_by_penalty = _judge_penalty(case, usual)
        if ANOTHER in penalty.why and penalty.verdict == "silent":  # or the same, but for rounding
            with suppress(RuntimeError):  # some of it is in single precision by its own word
                penalty = min(penalty, _judge_penalty(in_doubles(case), usual)[0], key=lambda one: RANK[one.verdict])
    touched = [*changed, *changed_by_penalty]
    why = [f"census: {counted.why}" * bool(counted.why), f"penalty: {penalty.why}" * bool(penalty.why), *touched]
    return Verdict(case.name, case.kind, counted.verdict, penalty.verdict, not touched, "\n".join(filter(None, why)))


# Models and batches


def fresh(case: Case) -> tuple[nn.Module, list[Any]]:
    """The model of a case and its batches, the same at every call."""
    model, data = _made(case)
    return model, [data] if isinstance(data, Tensor) else list(data)


def _made(case: Case) -> tuple[nn.Module, Any]:
    torch.manual_seed(SEED)
    return case.make()


def in_doubles(case: Case) -> Case:
    """The same in double precision, a little moved, so that nothing is equal by rounding alone, as zeros by a norm."""

    def make() -> tuple[nn.Module, Any]:
        model, data = case.make()
        model = model.double()
        with torch.no_grad():
            for p in model.parameters():
                p += 1e-3 * torch.randn_like(p)
        return model, tree_map_only(Tensor, lambda x: x.double() if x.is_floating_point() else x, data)

    return replace(case, make=make)


def _usual_warnings(case: Case) -> set[str]:
    """What the model warns of by itself."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for mode in (True, False):
            model, batches = fresh(case)
            model.train(mode)
            for batch in batches:
                _run(case, model, batch)
    return {str(w.message) for w in said}


def _run(case: Case, model: nn.Module, batch: Any) -> Any:
    return run(model, batch) if case.forward is None else case.forward(model, batch)


# The truth: states


class Truth(NamedTuple):
    """One layer: the ends of every unit, and of every (batch, point); of each unit how many entries are on, of all."""

    units: Ends
    points: Ends
    cutoff: float
    ceiling: float
    rates: Counts

    def states(self, ends: Ends) -> dict[Any, str]:
        """The state of each."""
        return {key: state(*pair, self.cutoff, self.ceiling) for key, pair in ends.items()}


def state(top: float, bottom: float, cutoff: float, ceiling: float) -> str:
    """The state of whatever has these extremes."""
    if not (math.isfinite(top) and math.isfinite(bottom)):
        return "broken"
    if top <= cutoff or bottom >= ceiling:
        return "dead"
    return "linear" if bottom > cutoff and top <= ceiling else "nonlinear"


def groups(z: Tensor, ids: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The entries of each id, one after the other; entries of −1 are nobody's."""
    ids = ids.expand_as(z).reshape(-1)
    flat = z.reshape(-1)
    for key in ids.unique().tolist():
        if key >= 0:
            yield key, flat[ids == key]


def ends(z: Tensor, ids: Tensor) -> Ends:
    """Largest and smallest entry of each id."""
    return {key: (part.amax().item(), part.amin().item()) for key, part in groups(z.detach(), ids)}


def wider(a: Ends, b: Ends) -> Ends:
    """The ends over both."""
    both = dict(a)
    for key, (top, bottom) in b.items():
        if key in both:
            top, bottom = max(top, both[key][0]), min(bottom, both[key][1])
        both[key] = (top, bottom)
    return both


def counts(layer: Layer) -> Counts:
    """How many entries of each unit lie above the cutoff and below the ceiling, and how many it has."""
    found = {}
    for key, part in groups(layer.signed.detach(), layer.unit):
        found[key] = (sum(layer.cutoff < entry < layer.ceiling for entry in part.tolist()), part.numel())
    return found


def truths(batches: Sequence[Sequence[Layer]]) -> list[Truth]:
    """The layers over all batches; those of one name are one, and those without a name go by their place."""
    merged: dict[str, Truth] = {}
    for number, layers in enumerate(batches):
        for place, layer in enumerate(layers):
            name = layer.name or f"place {place}"
            of_points = layer.noun in ("unit", "latent")  # codes and experts are chosen for every point
            pairs = ends(layer.signed, layer.point).items() if of_points else ()
            points = {(number, point): pair for point, pair in pairs}
            units = ends(layer.signed, layer.unit)
            old = merged.get(name, Truth({}, {}, layer.cutoff, layer.ceiling, {}))
            wide = {"units": wider(old.units, units), "points": wider(old.points, points)}
            merged[name] = old._replace(**wide, rates=_more(old.rates, counts(layer)))
    return list(merged.values())


def _more(a: Counts, b: Counts) -> Counts:
    """The counts over both."""
    return {key: tuple(map(sum, zip(a.get(key, (0, 0)), b.get(key, (0, 0)), strict=True))) for key in {**a, **b}}


def overall(layers: Sequence[Truth]) -> dict[Any, str]:
    """The state of each point over all layers."""
    by_point: dict[Any, list[str]] = {}
    for layer in layers:
        for point, found in layer.states(layer.points).items():
            by_point.setdefault(point, []).append(found)
    return {point: _over_layers(found) for point, found in by_point.items()}


def _over_layers(found: Sequence[str]) -> str:
    for fatal in ("broken", "dead"):
        if fatal in found:
            return fatal
    return "linear" if all(one == "linear" for one in found) else "nonlinear"


# The census


def _judge_census(case: Case, usual: set[str]) -> tuple[Found, list[str]]:
    once = _after_plain_passes(case)
    model, data = _made(case)
    census, found = None, Found("right")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            census = alive.census(model, data, keep_points=True, forward=case.forward, **case.options)
        except Exception as error:
            found = _refused(error)
    changed = [f"census changed {what}" for what in differences(once, snapshot(model, data))]
    if census is None:
        return found, changed
    warned = [text for w in said if (text := str(w.message)) not in usual]
    if not _has_selections(case):
        census, wrong = _spied(case, census)
        if wrong:
            return Found("silent", wrong), changed
    return _best(_read(census, true_layers(case, truth), warned) for truth in _readings(case)), changed


def _after_plain_passes(case: Case) -> dict[str, Any]:
    """The model after one pass over every batch, as a census makes it."""
    model, data = _made(case)
    modes = [module.training for module in model.modules()]
    model.eval()
    with torch.no_grad():
        for batch in [data] if isinstance(data, Tensor) else data:
            try:
                _run(case, model, batch)
            except Exception:  # which a census will meet as well
                break
    model.train(modes[0])
    for module, mode in zip(model.modules(), modes, strict=True):
        module.training = mode
    return snapshot(model, data)


def _has_selections(case: Case) -> bool:
    """Whether the truth of a case says who is chosen."""
    model, batches = fresh(case)
    return any(layer.noun != "unit" for layer in case.truth(model.eval(), batches[0]))


def _spied(case: Case, census: Any) -> tuple[Any, str]:
    """The census without its codes and experts, of which a spy on the calls of torch knows all that the case does not.

    And the first of these for which no call chose as many.
    """
    selected = [layer for layer in census.layers if getattr(layer, "noun", "unit") in ("code", "expert")]
    if not selected:
        return census, ""
    model, batches = fresh(case)
    chosen = choosers.choices(model.eval(), batches, lambda model, batch: _run(case, model, batch))
    wrong = [
        f"{layer.name}: {_short(layer.units)}, and the calls {chosen}"
        for layer in selected
        if not layer.units.unknown and (layer.units.total, layer.units.dead, layer.units.linear) not in chosen
    ]
    rest = tuple(layer for layer in census.layers if layer not in selected)
    places = [rest.index(layer) if layer in rest else -1 for layer in census.layers]
    died_at = torch.tensor([*places, -1])[census.died_at.long()]
    return replace(census, layers=rest, died_at=died_at), next(iter(wrong), "")


def _read(census: Any, layers: list[Truth], warned: list[str]) -> Found:
    """As `_compared`; a census that cannot be read is a crash."""
    try:
        return _compared(census, layers, warned)
    except Exception as error:
        return Found("crash", f"{type(error).__name__}: {error}")


def _readings(case: Case) -> tuple[Callable[..., list[Layer]], ...]:
    return (case.truth, *case.others)


def _best(found: Iterator[Found]) -> Found:
    return min(found, key=lambda one: RANK[one.verdict])


def _refused(error: Exception) -> Found:
    """AliveError is an answer, unless it only hands on what alive itself did to a model that runs."""
    text = f"{type(error).__name__}: {error}"
    handed_on = error.__cause__ is not None and not isinstance(error.__cause__, AliveError)
    return Found("told" if isinstance(error, AliveError) and not handed_on else "crash", text)


def true_layers(case: Case, truth: Callable[..., list[Layer]] | None = None) -> list[Truth]:
    """The layers of a case in eval mode, over all its batches, in its first reading or another."""
    truth = truth or case.truth
    model, batches = fresh(case)
    model.eval()
    return truths([truth(model, batch) for batch in batches])


def _compared(census: Any, layers: list[Truth], warned: list[str]) -> Found:
    """Whether all that the census says is true, and whether it says all."""
    is_old = not hasattr(census, "unseen")
    told = [f"warned: {text}" for text in warned] if is_old else [f"unseen: {one}" for one in census.unseen]
    fits = [[_layer_fits(found, layer, is_old) for layer in layers] for found in census.layers]
    pairs = _matched(fits)
    missing = [layer for j, layer in enumerate(layers) if j not in pairs.values()]
    found = [_found_layer(one, fits[i][pairs[i]] if i in pairs else "") for i, one in enumerate(census.layers)]
    enough = len(missing) <= len(told) or any("in a thread" in text for text in told)  # in which there may be several
    found += [_not_found(layer, is_told=enough) for layer in missing]
    found += [_over_all(census, layers, missing if told else []), *(Found("told", text) for text in told)]
    if all(one.verdict == "right" for one in found):
        found.append(_deaths(census, layers, pairs))
    return Found(
        max((one.verdict for one in found), key=RANK.__getitem__), "; ".join(one.why for one in found if one.why)
    )


def _found_layer(one: Any, fit: str) -> Found:
    """On a layer of the census: it fits a true one, says nothing, or is wrong."""
    if fit == "told":
        return Found("told", f"{one.name}: {getattr(one, 'unknown', '') or 'points not told'}")
    said = f"{one.name} is no layer of the truth: units {_short(one.units)}, points {_short(one.points)}"
    return Found("right") if fit else Found("told" if _says_nothing(one) else "silent", said)


def _not_found(layer: Truth, *, is_told: bool) -> Found:
    """On a true layer that the census does not have."""
    states = f"units {_tally(layer.states(layer.units))}, points {_tally(layer.states(layer.points))}"
    return Found("told" if is_told else "silent", f"not found: {states}")


def _over_all(census: Any, layers: list[Truth], excused: list[Truth]) -> Found:
    """On the points over all layers, with or without those that are told as not seen."""
    seen = [layer for layer in layers if not any(layer is one for one in excused)]
    fits = [_tally_fits(census.points, Counter(overall(some).values())) or "silent" for some in (layers, seen)]
    why = f"points overall {_short(census.points)}, true {dict(Counter(overall(layers).values()))}"
    return Found("right") if "right" in fits else Found(min(fits, key=RANK.__getitem__), why)


def _deaths(census: Any, layers: list[Truth], pairs: dict[int, int]) -> Found:
    """On the layers in which points died first; of one batch, whose points count from 0."""
    points = sorted({point for layer in layers for point in layer.points})
    if points != [(0, number) for number in range(len(points))]:
        return Found("right")
    in_order = [layers[pairs[i]] for i in range(len(census.layers))]
    dead = [{point for point, found in layer.states(layer.points).items() if found == "dead"} for layer in in_order]
    died_at = [next((i for i, gone in enumerate(dead) if point in gone), -1) for point in points]
    firsts = [died_at.count(i) for i in range(len(dead))]
    said = [layer.first_deaths for layer in census.layers]
    same = said == firsts and census.died_at.tolist() == died_at
    why = f"died_at {census.died_at.tolist()}, true {died_at}; first deaths {said}, true {firsts}"
    return Found("right") if same else Found("silent", why)


def _matched(fits: list[list[str]]) -> dict[int, int]:
    """Which census layer is which true one: the best match, in which only those that fit are together."""
    if not fits or not fits[0]:
        return {}
    cost = [
        [{"right": 0, "told": 1}.get(fit, 1000) + 0.001 * (i != j) for j, fit in enumerate(row)]
        for i, row in enumerate(fits)
    ]
    return {int(i): int(j) for i, j in zip(*linear_sum_assignment(cost), strict=True) if fits[i][j]}


def _layer_fits(found: Any, layer: Truth, is_old: bool) -> str:
    units = _tally_fits(found.units, Counter(layer.states(layer.units).values()))
    if units == "right" and not (_same_ends(found, layer) and _same_rates(found, layer)):
        units = ""
    if is_old and not sum(found.points):
        points = "told" if layer.points else "right"  # the old way to say so
    else:
        points = _tally_fits(found.points, Counter(layer.states(layer.points).values()), may_be_more=True)
    return max((units, points), key=RANK.__getitem__) if units and points else ""


def _tally_fits(tally: Any, true: Counter[str], *, may_be_more: bool = False) -> str:
    """right, told (some are unknown, and the others are not too many), or empty.

    There may be more points than have entries of their own: those of another batch, whose entries are nobody's.
    """
    unknown = getattr(tally, "unknown", 0)
    counts = [getattr(tally, name) for name in STATES]
    if not unknown:
        return "right" if counts == [true[name] for name in STATES] else ""
    known = sum(counts)
    complete = not known or known + unknown == true.total() or (may_be_more and known + unknown > true.total())
    return "told" if complete and all(n <= true[name] for n, name in zip(counts, STATES, strict=True)) else ""


def _same_ends(found: Any, layer: Truth) -> bool:
    """Whether the units have the true extremes, in whatever order: a count may be right by chance."""
    mine = torch.tensor(list(layer.units.values()), dtype=torch.float64).view(-1, 2)
    theirs = torch.stack([found.top, found.bottom], -1).double().view(-1, 2)
    theirs = theirs[(theirs[:, 0] != -torch.inf) | (theirs[:, 1] != torch.inf)]  # units that no point met
    if mine.shape != theirs.shape:
        return False
    mine, theirs = (x.nan_to_num(nan=7e7, posinf=8e7, neginf=-8e7) for x in (mine, theirs))
    mine, theirs = (x[(x @ x.new_tensor([1.0, 0.618])).argsort()] for x in (mine, theirs))
    return torch.allclose(mine, theirs, rtol=1e-3, atol=1e-3)


def _same_rates(found: Any, layer: Truth) -> bool:
    """Whether as many values of each unit are on, in whatever order."""
    pairs = zip(found.rates.on.tolist(), found.rates.met.tolist(), strict=True)
    return sorted(pair for pair in pairs if pair[1]) == sorted(layer.rates.values())


def _says_nothing(found: Any) -> bool:
    counted = [getattr(tally, name) for tally in (found.units, found.points) for name in STATES]
    return getattr(found.units, "unknown", 0) > 0 and not any(counted)


def _tally(states: dict[Any, str]) -> dict[str, int]:
    return dict(Counter(states.values()))


def _short(tally: Any) -> dict[str, int]:
    return {name: number for name, number in tally._asdict().items() if number}


# The penalty


class Term(NamedTuple):
    """What one layer adds to the penalty by its units or its points, and to the gradient of every parameter."""

    what: str
    value: float
    gradient: Tensor


def slack(part: Tensor, noun: str = "unit") -> Tensor:
    """By how much a unit or a point, of which these are all entries, misses its margins; the chosen, that of life."""
    alive = 0.5 * torch.relu(1 - part.amax())
    return alive + 0.5 * torch.relu(1 + part.amin()) if noun == "unit" else alive


def terms(model: nn.Module, layers: Sequence[Layer]) -> list[Term]:
    """The penalty by layers and axes; layers of one name are one. One entry alone has no slack."""
    found = []
    for number, layer in enumerate(_by_name(layers)):
        z = layer.z.to(torch.promote_types(layer.z.dtype, torch.float32)) - layer.cutoff
        for axis, ids in (("units", layer.unit), ("points", layer.point)):
            if axis == "points" and layer.noun != "unit":
                continue
            squares = [slack(part, layer.noun).square() for _, part in groups(z, ids) if part.numel() > 1]
            if squares:
                total = torch.stack(squares).sum()
                found.append(Term(f"{axis} of layer {number}", total.item(), _gradient(total, model)))
    return found


def _by_name(layers: Sequence[Layer]) -> list[Layer]:
    """The same layers, those of one name as one: all their entries in a row."""
    found: dict[str, Layer] = {}
    for number, layer in enumerate(layers):
        flat = [t.expand_as(layer.z).reshape(-1) for t in (layer.z, layer.point, layer.unit)]
        name = layer.name or f"place {number}"
        if name in found:
            old = found[name]
            flat = [torch.cat(both) for both in zip((old.z, old.point, old.unit), flat, strict=True)]
        found[name] = replace(layer, z=flat[0], point=flat[1], unit=flat[2])
    return list(found.values())


def _gradient(total: Tensor, model: nn.Module) -> Tensor:
    """The gradient of a scalar by all parameters, as one vector."""
    model.zero_grad()
    if total.requires_grad:
        total.backward(retain_graph=True)
    return _gradient_of(model)


def _gradient_of(model: nn.Module) -> Tensor:
    """What lies in the gradients of all trained parameters, as one vector; they are empty afterwards."""
    trained = [p for p in model.parameters() if p.requires_grad]
    found = [torch.zeros_like(p).flatten() if p.grad is None else p.grad.detach().flatten() for p in trained]
    model.zero_grad()
    return torch.cat([torch.zeros(0), *found])


def _judge_penalty(case: Case, usual: set[str]) -> tuple[Found, list[str]]:
    plain, selects = _step(case, nullcontext), _has_selections(case)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        step = _step(
            case,
            lambda model: alive.Jumpstart(
                model, weight=1.0, mode="UP", aggregate="sumsq", selections=selects, **case.options
            ),
        )
    warned = [text for w in said if (text := str(w.message)) not in usual]
    if step.error is not None:
        return _refused(step.error), [f"the penalty left {key}" for key in _different(plain, step) if "hook" in key]
    changed = [f"the penalty changed {key}" for key in _different(plain, step)]
    if not torch.allclose(step.output, plain.output, rtol=1e-4, atol=1e-5):
        changed.append("the penalty changed the output")
    measured = [
        Term("measured", value, gradient - without)
        for value, gradient, without in zip(step.penalties, step.gradients, plain.gradients, strict=True)
    ]
    found = (
        [_explained(*pair, warned) for pair in zip(measured, _penalty_terms(case, truth), strict=True)]
        for truth in _readings(case)
    )
    return _best(max(of_steps, key=lambda one: RANK[one.verdict]) for of_steps in found), changed


class Steps(NamedTuple):
    """Training: what came out of each step, and the model afterwards."""

    penalties: list[float]
    gradients: list[Tensor]
    output: Tensor
    after: dict[str, Any]
    error: Exception | None = None


def _groups(case: Case, batches: list[Any]) -> list[list[Any]]:
    """The batches of every step."""
    return [[batch] for batch in batches] if case.stepwise else [batches]


def _step(case: Case, attached: Callable[[nn.Module], Any]) -> Steps:
    model, batches = fresh(case)
    model.train()
    outputs: list[Tensor] = []
    values: list[float] = []
    gradients: list[Tensor] = []
    error = None
    try:
        with attached(model) as keep:
            for group in _groups(case, batches):
                outputs.append(sum((_total(_run(case, model, batch)) for batch in group), torch.zeros(())))
                penalty = torch.zeros(()) if keep is None or keep is model else keep.penalty()
                if (total := penalty + outputs[-1]).requires_grad:
                    total.backward()
                values.append(penalty.item())
                gradients.append(_gradient_of(model))
    except Exception as raised:
        error = raised
        model.zero_grad()
    output = torch.stack(outputs).detach() if outputs else torch.zeros(0)
    return Steps(values, gradients, output, snapshot(model, batches), error)


def _different(plain: Steps, step: Steps) -> list[str]:
    return differences(plain.after, step.after)


def _total(output: Any) -> Tensor:
    """A scalar of everything that a model returns."""
    floats = [x for x in tree_leaves(output) if isinstance(x, Tensor) and x.is_floating_point()]
    return sum((x.float().sin().sum() for x in floats), torch.zeros(()))


def _penalty_terms(case: Case, truth: Callable[..., list[Layer]]) -> list[list[Term]]:
    """The terms of every step."""
    model, batches = fresh(case)
    model.train()
    groups = _groups(case, batches)
    return [[term for batch in group for term in terms(model, truth(model, batch))] for group in groups]


def _explained(measured: Term, found: list[Term], warned: list[str]) -> Found:
    """right if all terms are there; told if some are left out, with a warning."""
    if _is_sum(measured, found):
        return Found("right")
    ways: list[Sequence[Term]] = [found, *(_left(measured, found) if warned else ())]
    values = [sum(t.value for t in some) for some in ways]
    same = any(math.isclose(value, measured.value, rel_tol=1e-4) for value in values)
    why = f"value {measured.value:.6g}, true {values[0]:.6g}{f', {ANOTHER}' * same}"
    told = any(_is_sum(measured, some) for some in ways[1:])
    return Found("told" if told else "silent", "; ".join([why, *warned]))


def _left(measured: Term, found: list[Term]) -> Iterator[Sequence[Term]]:
    """Which terms may be those that were measured: the best fit first, with those of which it is least sure in and out;
    then, where they are few, any.
    """
    if found:
        columns = torch.stack([_as_vector(term) for term in found], 1)
        shares = torch.linalg.lstsq(columns, _as_vector(measured)[:, None], driver="gelsd").solution[:, 0]
        doubt = (shares - shares.clamp(0, 1).round()).abs()
        unsure = set(doubt.argsort(descending=True)[:8].tolist())
        sure = [term for i, term in enumerate(found) if shares[i] > 0.5 and i not in unsure]
        yield [term for i, term in enumerate(found) if shares[i] > 0.5]
        for number in range(len(unsure) + 1):
            yield from ([*sure, *(found[i] for i in some)] for some in itertools.combinations(sorted(unsure), number))
    for number in range(len(found)) if len(found) <= 12 else ():
        yield from itertools.combinations(found, number)


def _as_vector(term: Term) -> Tensor:
    return torch.cat([torch.tensor([term.value]), term.gradient]).double()


def _is_sum(measured: Term, found: Sequence[Term]) -> bool:
    value = sum(t.value for t in found)
    if not math.isclose(value, measured.value, rel_tol=1e-5, abs_tol=1e-5):
        return False
    gradient = sum((t.gradient for t in found), torch.zeros_like(measured.gradient))
    scale = max(1.0, gradient.abs().max().item() if gradient.numel() else 0.0)
    return torch.allclose(gradient, measured.gradient, rtol=1e-4, atol=1e-5 * scale)


# The model afterwards


def snapshot(model: nn.Module, data: Any = ()) -> dict[str, Any]:
    """All that nobody may change: a model's values, gradients, modes, hooks and attributes, and its batches."""
    seen: dict[str, Any] = {"grad mode": torch.is_grad_enabled(), "generator": torch.get_rng_state()}
    for name, p in model.named_parameters(remove_duplicate=False):
        seen[f"value of {name}"] = p.detach().clone()
        seen[f"gradient of {name}"] = None if p.grad is None else p.grad.clone()
        seen[f"requires_grad of {name}"] = p.requires_grad
    for name, buffer in model.named_buffers(remove_duplicate=False):
        seen[f"buffer {name}"] = buffer.detach().clone()
    for name, module in model.named_modules(remove_duplicate=False):
        seen[f"training of {name}"] = module.training
        own = {key: value for key, value in vars(module).items() if not key.startswith("_") and key != "training"}
        seen |= {f"attribute {key} of {name}": _kept(value) for key, value in own.items()}
        hooks = {key: value for key, value in vars(module).items() if "hook" in key and isinstance(value, dict)}
        seen |= {f"{key} of {name}": len(value) for key, value in hooks.items()}
    given = [x for x in tree_leaves(data) if isinstance(x, Tensor) and x.layout == torch.strided]
    seen |= {f"tensor {i} of the batches": _kept(x) for i, x in enumerate(given)}
    return seen


def _kept(value: Any) -> Any:
    """A copy of what an attribute holds; of what has no value of its own, its kind."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, list | tuple | dict):
        return [_kept(x) for x in tree_leaves(value)]
    return value if isinstance(value, int | float | str) else type(value)


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was."""
    return [key for key in before.keys() | after.keys() if not _same(before.get(key), after.get(key))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        a, b = (t.to_dense() if t.layout != torch.strided else t for t in (a, b))
        return a.shape == b.shape and torch.allclose(a.float(), b.float(), rtol=1e-5, atol=1e-6, equal_nan=True)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and a == b
