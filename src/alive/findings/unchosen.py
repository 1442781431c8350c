"""Latents, codes and experts that nothing chooses."""

from __future__ import annotations

from ..diagnosis.record import Census
from ..taps.selections import CODE, EXPERT, LATENT, NOUNS
from .dead_units import worst_dead
from .finding import Finding, Rule, counted, named, open_units

CHOSEN_AGAIN = {
    LATENT: "subtract the mean of the data before the encoder",
    CODE: "set dead codes to inputs of the quantiser",
    EXPERT: "add a loss that balances the load of the router",
}
LIFTED = (
    'keep = alive.Jumpstart(model, weight=1e-3, mode="U", against="death")',
    "loss = loss + keep.penalty()  # in each step",
)
UNSCORED = (
    "take fewer of them, or add a loss on the entropy of what is chosen: they show no scores that could be lifted"
)


def see(census: Census) -> Finding | None:
    """Of each kind of candidate those that no point of the data chooses."""
    told, scored = [], []
    for noun in (noun for noun in NOUNS if worst_dead(census, noun)):
        worst, tally = worst_dead(census, noun), census.chosen(noun)
        never = "never chosen with a value that passes" if noun == LATENT else "never chosen"
        where = named(census, worst, lambda a: f"{a.units.dead} of {a.units.known}")
        told.append(f"{tally.dead} of {tally.known} {noun}s are {never}, most in {where}")
        scored += [CHOSEN_AGAIN[noun]] if any(layer.scored for layer in worst) else []
    dead = [layer for layer in census.layers if layer.noun in NOUNS and layer.units.dead]
    places = tuple(counted(layer, layer.units.dead, "are never chosen") for layer in dead)
    do = "; ".join((*scored, "or lift the largest margin of each to being chosen")) if scored else UNSCORED
    found = Finding(f"{'; '.join(told)}: they learn nothing", do, LIFTED if scored else (), places=places)
    return found if dead else None


RULE = Rule(
    "ALV016", "latents, codes or experts that nothing chooses", "warning",
    "candidates of a selection that no point of the data chooses",
    "Data that lie far from zero, codes that start far from the inputs, or a router that sends everything to a "
    "few experts. What is never chosen gets no gradient.",
    "A latent of a sparse autoencoder is dead if no point chooses it with a value that passes on; a code of a "
    "codebook or an expert, if no point chooses it. Candidates count, not the chosen values alone. One finding a "
    "layer; the threshold is a number of candidates of the layer, or a share of them.",
    "Subtract the mean of the data, seed dead codes anew (`alive.revive`), balance the router; or add "
    "`alive.Jumpstart(model, weight=1e-3, mode=\"U\", against=\"death\")`. Codes that show no scores, as those of FSQ "
    "and LFQ, can be neither lifted nor seeded: take fewer.",
    see, counts="candidates", is_open=open_units("dead", NOUNS),
)  # fmt: skip
