"""The command that removes what a network does not need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import AliveError
from .own import Typed, note, takes
from .words import command, pure, show, wrote
from .written import FailOn, Form, Ignore, Json, Limits, Report, asked

if TYPE_CHECKING:
    from ..surgery import Shrunk
    from .sources import Opened

BOX = "Prove it for every input in these bounds: 0,1 for each entry, or data for the range of the data."
NEARLY = (
    "Units on, or off, for less than this share of their values go too, as 1e-3: outputs change, by how much is said."
)
OUT = (
    "File for the small network's weights: .safetensors, for --weights; of a model of transformers, a folder, for hf:."
)


@takes("points", "weights")
def shrink(
    typed: Typed,
    box: Annotated[str | None, typer.Option(help=BOX)] = None,
    nearly: Annotated[float, typer.Option(help=NEARLY)] = 0.0,
    time_limit: Annotated[float, typer.Option(min=0, help="Seconds for proofs; what is undecided then stays.")] = 60.0,
    out: Annotated[Path | None, typer.Option(help=OUT)] = None,
    onnx: Annotated[Path | None, typer.Option(help="Also write the small network as ONNX, and check it.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page that shows which units went, and why.")] = None,
    format: Form = None,
    as_json: Json = False,
    report: Report = None,
    fail_on: FailOn = None,
    ignore: Ignore = None,
    threshold: Limits = None,
) -> None:
    """Remove dead units and merge linear ones; outputs stay the same on the data, or with --box on all inputs in it."""
    from .. import surgery
    from ..data.calls import few_threads
    from ..data.intake import materialise
    from ..files import expect_writable
    from ..render.sheet import shrink_sheet
    from . import sources

    wanted = asked("shrink", format, as_json=as_json, files=report, ignore=ignore, threshold=threshold, fail_on=fail_on)
    for file in (out, onnx, html):
        if file is not None:
            expect_writable(file / "config.json" if file.is_dir() else file)
    ends = _ends(box)
    with pure(wanted.is_pure):
        opened = sources.opened(typed)
        network = opened.model()
        points = opened.batches(network)
        network = materialise(network, points).eval()
        other, said = _hold_out(opened)
        note((*opened.notes, *said))
        with few_threads(network):
            done = surgery.shrink(
                network, points, box=ends, held_out=other, nearly=nearly, time_limit=time_limit, seed=typed.seed
            )
            _write(done, opened, points, out=out, onnx=onnx, html=html)
    if wanted.shows_table:
        _show(done)
    wanted.finish(shrink_sheet, done.report, opened)


def _ends(box: str | None) -> Any:
    """The box as it was typed."""
    if box is None or box == "data":
        return box
    try:
        lo, hi = (float(end) for end in box.split(","))
    except ValueError:
        raise AliveError(
            f"cannot read --box {box!r}", "Write --box 0,1 or --box data; with a minus, --box=-1,1"
        ) from None
    return lo, hi


def _hold_out(opened: Opened) -> tuple[Any, tuple[str, ...]]:
    """The test points, if there are any, and a note on them."""
    try:
        return opened.part("test"), ("held out: the test points",)
    except AliveError:
        return None, ()


def _write(done: Shrunk, opened: Opened, given: Any, *, out: Path | None, onnx: Path | None, html: Path | None) -> None:
    """The files that were asked for."""
    from .. import surgery
    from ..files import write_atomically

    if out is not None:
        surgery.save_shrunk(done.model, out)
        wrote(out)
    if onnx is not None:
        from ..surgery.graph.calls import Calls

        call = Calls(given, done.model).first()
        inputs = call.leaves()
        if len(inputs) != 1:
            raise AliveError(
                f"the model takes {len(inputs)} inputs, and only models of one are written", "Leave --onnx out"
            )
        surgery.to_onnx(done.model, onnx, inputs[0][:16])
        wrote(onnx)
    if html is not None:
        from ..surgery.shrink.page import Source, page

        source = Source(command=command(), model=opened.typed.model, data=opened.source)
        write_atomically(html, page(done.report, f"{source.model}, shrunk", source).encode())
        wrote(html)


def _show(done: Shrunk) -> None:
    from rich.table import Table
    from rich.text import Text

    report = done.report
    show(Text(report.ground_in_words, style="bold"))
    grid = Table(box=None, pad_edge=False)
    for name, side in (("layer", "left"), ("units", "right"), ("connections", "right"), ("why", "left")):
        grid.add_column(name, justify=side)  # type: ignore[arg-type]
    for layer in report.layers:
        grid.add_row(
            Text(layer.layer),
            f"{layer.units:,} to {layer.units_left:,}",
            f"{layer.connections:,} to {layer.connections_left:,}",
            Text(layer.in_words),
        )
    show(grid)
    for line in report.lines:
        show(Text(line))
