"""A history on the terminal: a line a layer, from the first step to the last."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from .record import History, Layer, Moment, Seen

BLOCKS = "▁▂▃▄▅▆▇█"
MOST = 24  # layers that are listed


@dataclass(frozen=True, slots=True)
class Shown:
    """Who was alive over time: red where units are dead, yellow where they are linear and none is dead."""

    history: History

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        history = self.history
        if not history.moments:
            yield Text("nothing was looked at yet")
            return
        listed = worst(history)[:MOST]
        listed = [layer for layer in history.layers if layer in listed]
        names = max([len("dead points"), *(min(len(layer.label), 30) for layer in listed)])
        room = max(8, options.max_width - names - 24)
        shown = picked(history.moments, room)
        first, last = shown[0], shown[-1]
        yield Text(f"steps {first.step:,} to {last.step:,}, {len(history.moments)} censuses", style="bold")
        for layer in listed:
            bar = Text().join(_cell(moment.layers.get(layer.name)) for moment in shown)
            yield Text.assemble(f"{layer.label[:30]:<{names}}  ", bar, f"  {_tell(last.layers.get(layer.name))}")
        if last.points.total:
            bar = Text().join(_block(m.points.dead / max(m.points.total, 1), "blue") for m in shown)
            yield Text.assemble(f"{'dead points':<{names}}  ", bar, f"  {last.points.dead} of {last.points.total}")
        if len(listed) < len(history.layers):
            yield Text(f"({len(history.layers) - len(listed)} layers with fewer dead units are not shown)", style="dim")
        yield Text.assemble(
            ("█ dead ", "red"), ("█ linear ", "yellow"), ("· all bend ", "green"), ("? unknown", "cyan")
        )


def worst(history: History) -> list[Layer]:
    """The layers with the largest share of dead units at any step first, then in the network's order."""
    most = {layer.name: max(_share(m.layers.get(layer.name), "d") for m in history.moments) for layer in history.layers}
    return sorted(history.layers, key=lambda layer: -most[layer.name])


def picked(moments: tuple[Moment, ...], most: int) -> list[Moment]:
    """At most so many moments, evenly spread, the first and the last among them."""
    if len(moments) <= most:
        return list(moments)
    return [moments[round(place * (len(moments) - 1) / (most - 1))] for place in range(most)]


def _share(seen: Seen | None, letter: str) -> float:
    return seen.count(letter) / seen.total if seen is not None and seen.total else 0.0


def _cell(seen: Seen | None) -> Text:
    if seen is None:
        return Text(" ")
    if seen.count("u") or seen.count("b"):
        return Text("?", "cyan") if seen.count("u") else Text("!", "bold magenta")
    if seen.count("d"):
        return _block(_share(seen, "d"), "red")
    return _block(_share(seen, "l"), "yellow") if seen.count("l") else Text("·", "green")


def _block(share: float, colour: str) -> Text:
    """A block as high as a share; a dot for none."""
    if not share:
        return Text("·", "dim")
    return Text(BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)], colour)


def _tell(seen: Seen | None) -> str:
    if seen is None:
        return "not reached"
    if seen.count("u"):
        return "unknown"
    more = {"linear": seen.count("l"), "rare": int(seen.measures.get("rare", 0))}
    return f"{seen.count('d')} of {seen.total} dead" + "".join(f", {n} {word}" for word, n in more.items() if n)
