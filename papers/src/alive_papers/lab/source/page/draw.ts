// One frame: every canvas, every number.

import { ACTIVATIONS, type Column, MOST_EPOCHS, type Settings, type Shown } from "../engine";
import { type Curve, drawCurves, powers, shares } from "./curves";
import { $, mark, put, say } from "./dom";
import { drawGrid } from "./grid";
import { here, letter, LETTERS } from "./here";
import { drawDecision, drawResponse } from "./map";
import { isSame } from "./parts";
import { tell } from "./session";
import { aboutLayer, aboutUnit, counts, HINT, type Lines, made, percent, scores, summary, turnText } from "./words";

export function draw(): void {
  here.isDrawn = true;
  const isRunning = here.frame?.isRunning ?? false;
  mark(
    $("play"),
    `<span aria-hidden="true">${isRunning ? "❚❚" : "▶"}</span> <span class="word">${isRunning ? "Pause" : "Play"}</span>`,
  );
  for (const id of ["play", "step", "back", "share", "code"]) $<HTMLButtonElement>(id).disabled = here.isEmpty;
  here.state.nets.forEach((settings, k) => drawNet(settings, here.frame?.nets[k], k));
  drawDetail();
  drawNumbers();
  const net = here.frame?.nets[here.state.nets.length > 1 ? here.edited : 0];
  const settings = here.state.nets[here.edited] ?? here.state.nets[0];
  $<HTMLButtonElement>("cure-sep-up").disabled = !net || net.penalises === "UP" || !!net.stopped;
  $<HTMLButtonElement>("cure-mirrored").disabled = !net || settings.width < 2 || settings.method === "farkas";
  $("weighs").hidden = !settings.method.startsWith("sep-") && !net?.penalises;
  const stopped = (here.frame?.nets ?? []).flatMap((each, k) => (each.stopped ? [letter(k) + each.stopped] : []));
  if (here.frame && here.frame.epoch >= MOST_EPOCHS)
    stopped.push(`The page ends at ${MOST_EPOCHS.toLocaleString("en")} epochs.`);
  if (stopped.length) say(stopped);
  if (here.frame) tell({ type: "drawn" });
}

function drawNet(settings: Settings, net: Shown | undefined, k: number): void {
  const part = $("networks").children[k] as HTMLElement;
  const canvas = part.querySelector("canvas")!;
  const map = $("maps").children[k]!.querySelector("canvas")!;
  const marked = new Set<number>();
  if (net && here.chosen?.net === k) net.diedAt.forEach((layer, n) => layer === here.chosen!.layer && marked.add(n));
  const painted = here.maps[k];
  drawDecision(map, painted?.values ?? null, painted?.size ?? 0, here.view, here.data, marked, here.colour);
  $("ringed").hidden = !here.chosen;
  const doses = (here.frame?.doses ?? []).filter((dose) => dose.net === k);
  part.querySelector(".head .soft")!.textContent = made(settings, doses);
  const figures = part.querySelector(".figures")!;
  if (!net || !here.frame) {
    figures.textContent = "";
    return;
  }
  drawGrid(
    canvas,
    net,
    settings,
    here.data.train.count,
    here.chosen?.net === k ? here.chosen : null,
    here.hovered?.net === k ? here.hovered : null,
    here.colour,
  );
  // A screen reader need not hear of every frame.
  if (!here.frame.isRunning)
    canvas.setAttribute(
      "aria-label",
      `Units of network ${LETTERS[k]}, layer by layer; the arrow keys go from unit to unit. ${summary(net, here.frame.epoch, here.data.train.count)}`,
    );
  map.setAttribute(
    "aria-label",
    `Decision map${letter(k) && ` of ${LETTERS[k]}`}: ${percent(net.accuracy)} of the training points are on the right side`,
  );
  const pace =
    here.frame.isRunning && here.frame.pace
      ? `<div><span>epochs a second</span> ${Math.round(here.frame.pace)}</div>`
      : "";
  const goal = here.frame.isRunning && here.frame.epoch < here.frame.target ? ` of ${here.frame.target}` : "";
  figures.innerHTML = `${k ? "" : pace}<div><span>epoch</span> ${here.frame.epoch.toLocaleString("en")}${goal}</div><div><span>loss</span> ${net.loss.toPrecision(3)}</div><div><span>accuracy</span> ${percent(net.accuracy)}</div>`;
}

function drawDetail(): void {
  const place = here.latest;
  const net = place && here.frame?.nets[place.net];
  const settings = place && here.state.nets[place.net];
  const probe = here.frame?.probe && isSame(here.frame.probe.place, place) ? here.frame.probe : null;
  const canvas = $<HTMLCanvasElement>("response");
  const cutoff = settings ? ACTIVATIONS[settings.activation].cutoff : 0;
  canvas.hidden = !place;
  $("detail").classList.toggle("hinting", !place);
  $("about").setAttribute("aria-live", here.frame?.isRunning ? "off" : "polite");
  if (!place && $("about").dataset["text"]) put($("about"), [{ title: "", body: HINT }]);
  drawResponse(canvas, probe?.response ?? null, probe?.size ?? 0, cutoff, here.view, here.data, here.colour);
  if (!place || !net || !settings) return;
  const lines: Lines[] = [
    aboutUnit(net, settings, place, here.data.train.count, letter(place.net)),
    aboutLayer(net, settings, place.layer, here.data.train.count),
  ];
  put($("about"), lines);
}

function drawNumbers(): void {
  const lossCurves: Curve[] = here.history.map((kept, k) => ({
    values: kept.loss,
    colour: here.colour.ink,
    dash: k ? [5, 4] : [],
  }));
  const cures = (net?: number): number[] =>
    (here.frame?.doses ?? []).filter((dose) => net === undefined || dose.net === net).map((dose) => dose.epoch);
  drawCurves($("losses"), lossCurves, powers(lossCurves), cures(), here.colour);
  $("losses").setAttribute(
    "aria-label",
    `Loss over the epochs: ${here.frame?.nets.map((net, k) => `${letter(k)}now ${net.loss.toPrecision(3)}`).join(", ") ?? ""}`,
  );
  here.state.nets.forEach((settings, k) => {
    const canvas = $("shares").children[k]!.querySelector("canvas")!;
    const units = settings.depth * settings.width;
    const kept = here.history[k];
    const part = (name: Column, of: number): number[] => kept?.[name].map((each) => each / of) ?? [];
    drawCurves(
      canvas,
      [
        { values: part("deadPoints", here.data.train.count), colour: here.colour.points, dash: [1.5, 3] },
        { values: part("deadUnits", units), colour: here.colour.deaths, dash: [6, 4] },
        { values: kept?.accuracy ?? [], colour: here.colour.ink, dash: [] },
      ],
      shares(),
      cures(k),
      here.colour,
      110,
    );
    const net = here.frame?.nets[k];
    if (net)
      canvas.setAttribute(
        "aria-label",
        `Over the epochs: accuracy, dead units and dead points; now ${summary(net, here.frame!.epoch, here.data.train.count)}`,
      );
  });
  if (!here.frame) {
    for (const id of ["census", "scores", "turns"]) mark($(id), "");
    return;
  }
  mark($("census"), counts(here.frame.nets, letter));
  mark($("scores"), scores(here.frame.nets, here.data));
  const turns = here.frame.nets
    .flatMap((net, k) => net.turns.map((turn) => ({ turn, k })))
    .sort((a, b) => b.turn.epoch - a.turn.epoch)
    .slice(0, 6);
  const lines = turns.length
    ? turns.map(({ turn, k }) => turnText(turn, here.state.nets[k]!, letter(k)))
    : ["No unit has died or revived yet."];
  mark($("turns"), lines.map((text) => `<li>${text}</li>`).join(""));
}
