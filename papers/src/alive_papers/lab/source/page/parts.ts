// The parts of the page that depend on the networks at hand, and what pointing and clicking at them does.

import { MOST_POINTS, type Place } from "../engine";
import { $, form, say } from "./dom";
import { spotAt } from "./grid";
import { here, letter, LETTERS } from "./here";
import { restart, tell } from "./session";

export function build(): void {
  const nets = here.state.nets.map((settings, k) => {
    const part = document.createElement("section");
    part.className = "card network";
    part.setAttribute("aria-label", `Network ${LETTERS[k]}`);
    part.innerHTML = `<div class="head"><b></b><span class="soft"></span><span class="figures"></span></div>
<canvas tabindex="0" role="application"></canvas>
<p class="legend soft"><span><span class="swatch alive"></span> alive</span> <span><span class="swatch linear"></span> linear</span> <span><span class="swatch dead"></span> dead</span> <span><span class="stroke" style="border-color: var(--points)"></span> dead points, by layer</span></p>`;
    part.querySelector("b")!.textContent = `${letter(k)}${settings.depth} layers × ${settings.width} units`;
    listen(part.querySelector("canvas")!, k);
    return part;
  });
  $("networks").replaceChildren(...nets);
  $("maps").className = here.state.nets[0].data === "own" ? "clickable" : "";
  $("maps").replaceChildren(
    ...here.state.nets.map((_, k) => {
      const figure = document.createElement("figure");
      const canvas = document.createElement("canvas");
      canvas.setAttribute("role", "img");
      canvas.addEventListener("pointerdown", (event) => addPoint(event, canvas));
      figure.append(canvas);
      if (here.state.nets.length > 1)
        figure.append(Object.assign(document.createElement("figcaption"), { textContent: LETTERS[k] }));
      return figure;
    }),
  );
  $("shares").replaceChildren(
    ...here.state.nets.map((_, k) => {
      const part = document.createElement("div");
      part.append(
        Object.assign(document.createElement("h2"), { textContent: `${letter(k)}Shares` }),
        document.createElement("canvas"),
      );
      part.querySelector("canvas")!.setAttribute("role", "img");
      return part;
    }),
  );
  const strokes =
    here.state.nets.length > 1
      ? `<span><span class="stroke"></span> A</span> <span><span class="stroke second"></span> B</span>`
      : "";
  $("loss-legend").innerHTML = strokes;
  $("hollow").hidden = !here.data.test.count;
}

function listen(canvas: HTMLCanvasElement, net: number): void {
  const settings = here.state.nets[net]!;
  const at = (event: PointerEvent): Place | null => {
    const box = canvas.getBoundingClientRect();
    const spot = spotAt(canvas, event.clientX - box.left, event.clientY - box.top, settings);
    return spot && { net, ...spot };
  };
  canvas.addEventListener("pointermove", (event) => point(at(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => choose(at(event as PointerEvent)));
  canvas.addEventListener("focus", () => here.chosen?.net === net || choose({ net, layer: 0, unit: 0 }));
  canvas.addEventListener("keydown", (event) => {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [
      0, 0,
    ];
    if (!dx && !dy) return;
    event.preventDefault();
    const from = here.chosen?.net === net ? here.chosen : { layer: 0, unit: 0 };
    const within = (value: number, count: number): number => Math.min(count - 1, Math.max(0, value));
    choose({ net, layer: within(from.layer + dx!, settings.depth), unit: within(from.unit + dy!, settings.width) });
  });
}

function addPoint(event: PointerEvent, canvas: HTMLCanvasElement): void {
  if (here.state.nets[0].data !== "own") return;
  if (here.state.own.length >= MOST_POINTS) return say([`There are ${MOST_POINTS} points already, and no more fit.`]);
  const box = canvas.getBoundingClientRect();
  const round = (value: number): number => Math.round(value * 1000) / 1000;
  const x = round(here.view.low[0] + (here.view.size * (event.clientX - box.left)) / box.width);
  const y = round(here.view.low[1] + here.view.size * (1 - (event.clientY - box.top) / box.height));
  const label = Number(form.querySelector<HTMLInputElement>("[name=class]:checked")!.value) as 0 | 1;
  restart(here.state.nets, [...here.state.own, [x, y, label]]);
}

export const isSame = (a: Place | null, b: Place | null): boolean =>
  a?.net === b?.net && a?.layer === b?.layer && a?.unit === b?.unit;

function point(place: Place | null): void {
  if (isSame(place, here.hovered)) return;
  here.hovered = place;
  look();
}

function choose(place: Place | null): void {
  here.chosen = isSame(place, here.chosen) ? null : place;
  look();
}

function look(): void {
  here.latest = here.hovered ?? here.chosen ?? here.latest;
  tell({ type: "probe", place: here.latest });
}
