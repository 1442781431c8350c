// The page: controls, the worker behind them, and what is drawn when it tells something new.

import {
  ACTIVATION_NAMES,
  ACTIVATIONS,
  type Column,
  type Cure,
  DATA,
  type Data,
  type Frame,
  load,
  METHODS,
  misfits,
  MOST_EPOCHS,
  MOST_POINTS,
  OPTIMISERS,
  type Order,
  type Place,
  type Point,
  PRESETS,
  pasted,
  pytorch,
  read,
  readLink,
  type Settings,
  SHARED,
  type Shown,
  STARTS,
  type State,
  type View,
  write,
} from "../engine";
import { colours } from "./colours";
import { type Curve, drawCurves, powers, shares } from "./curves";
import { drawGrid, spotAt } from "./grid";
import { drawDecision, drawResponse, viewOf } from "./map";
import { aboutLayer, aboutUnit, counts, type Lines, percent, scores, summary, turnText } from "./words";

const XOR: Point[] = [[-0.5, -0.5, 0], [0.5, 0.5, 0], [-0.5, 0.5, 1], [0.5, -0.5, 1]]; // prettier-ignore
const LETTERS = ["A", "B"] as const;
const HINT =
  "Point at a unit to see what it answers; click a layer to see who dies there. With the keyboard: Tab to the network, then the arrow keys.";

const $ = <E extends HTMLElement = HTMLElement>(id: string): E => document.getElementById(id) as E;
const form = $<HTMLFormElement>("form");
const field = (name: string): HTMLInputElement | HTMLSelectElement => form.elements.namedItem(name) as HTMLInputElement;

let state: State = readLink("").state;
let data: Data = load(state.nets[0]);
let view: View = viewOf(data, false);
let number = 0; // of the latest beginning
let frame: Frame | null = null;
let history: Record<Column, number[]>[] = [];
let maps: { values: Float32Array; size: number }[] = [];
let edited: 0 | 1 = 0;
let chosen: Place | null = null;
let hovered: Place | null = null;
let latest: Place | null = null; // that was pointed at: what is said of it stays when the pointer leaves
let isEmpty = false;
let isDrawn = true;
let colour = colours();
let linkFaults: string[] = [];
let preset = "";

const engine = $("engine").textContent ?? "";
const worker = new Worker(URL.createObjectURL(new Blob([`${engine};lab.serve(self)`], { type: "text/javascript" })));
const tell = (order: Order): void => worker.postMessage(order);
worker.onmessage = ({ data: told }: MessageEvent<Frame>): void => receive(told);
worker.onerror = (event): void => say([`The engine stopped: ${event.message}. Reload the page.`]);

// Beginning.

/** Begin anew with this state; an address may ask for some epochs. */
function begin(next: State): void {
  state = next;
  const own = state.nets[0].data === "own";
  data = load(state.nets[0], state.own);
  view = viewOf(data, own);
  frame = null;
  chosen = hovered = null;
  const there = latest && state.nets[latest.net];
  if (!latest || !there || latest.layer >= there.depth || latest.unit >= there.width) latest = null;
  history = [];
  maps = [];
  isEmpty = data.train.count < 1;
  const faults = [...new Set(state.nets.flatMap((settings) => misfits(settings, data.train.count)))];
  build();
  fill();
  say([...linkFaults, ...faults]);
  isEmpty ||= faults.length > 0;
  if (isEmpty) number++;
  else tell({ type: "begin", number: ++number, state, view });
  tell({ type: "probe", place: latest });
  remember();
  draw();
}

function restart(nets: State["nets"] = state.nets, own: readonly Point[] = state.own): void {
  linkFaults = [];
  begin({ nets, own, epoch: 0, doses: [] });
}

function open(hash: string): void {
  const { state: found, faults } = readLink(hash);
  linkFaults = faults;
  edited = 0;
  const isOwn = found.nets[0].data === "own" && !found.own.length;
  begin(isOwn ? { ...found, own: XOR } : found);
}

/** The state as it is now: with the epoch that is shown, and the cures that were given. */
function now(): State {
  return { ...state, epoch: frame?.epoch ?? 0, doses: frame?.doses ?? [] };
}

function remember(): void {
  const link = `#${write(now())}`;
  if (link === location.hash) return;
  try {
    window.history.replaceState(null, "", link);
  } catch {
    location.replace(link);
  }
}

function receive(told: Frame): void {
  if (told.number !== number) return tell({ type: "drawn" });
  const wasRunning = frame?.isRunning;
  frame = told;
  told.nets.forEach((net, k) => {
    const kept = (history[k] ??= Object.fromEntries(
      Object.keys(net.history).map((name) => [name, []]),
    ) as unknown as Record<Column, number[]>);
    for (const name of Object.keys(kept) as Column[]) {
      kept[name].length = Math.min(kept[name].length, told.since);
      for (const each of net.history[name]) kept[name].push(each);
    }
    if (net.map) maps[k] = { values: net.map, size: told.mapSize };
  });
  if (!told.isRunning) remember();
  if (wasRunning && !told.isRunning)
    $("said").textContent = told.nets
      .map((net, k) => `${letter(k)}${summary(net, told.epoch, data.train.count)}`)
      .join(" ");
  if (isDrawn) requestAnimationFrame(draw);
  isDrawn = false;
}

// Saying.

function say(sentences: readonly string[]): void {
  $("faults").replaceChildren(
    ...sentences.slice(0, 6).map((text) => Object.assign(document.createElement("p"), { textContent: text })),
  );
}

function letter(net: number): string {
  return state.nets.length > 1 ? `${LETTERS[net]}: ` : "";
}

// Controls.

function options(name: string, known: Record<string, string>): void {
  field(name).append(...Object.entries(known).map(([value, text]) => new Option(text, value)));
}

/** Show the settings of the network that is edited. */
function fill(): void {
  const settings = state.nets[edited] ?? state.nets[0];
  for (const [name, value] of Object.entries(settings)) {
    field(name).value = String(value);
    field(name).removeAttribute("aria-invalid");
  }
  for (const range of form.querySelectorAll<HTMLInputElement>("[data-for]"))
    range.value = String(settings[range.dataset["for"] as "depth"]);
  $("own").hidden = settings.data !== "own";
  $("which").hidden = state.nets.length < 2;
  for (const radio of form.querySelectorAll<HTMLInputElement>("[name=which]"))
    radio.checked = radio.value === String(edited);
  $("compare").setAttribute("aria-pressed", String(state.nets.length > 1));
  $("sentence").hidden = !preset;
  $("sentence").textContent = PRESETS.find(({ name }) => name === preset)?.sentence ?? "";
  for (const button of document.querySelectorAll<HTMLElement>("#presets button"))
    button.setAttribute("aria-pressed", String(button.dataset["name"] === preset));
}

/** Take what was entered, or say what is wrong with it and leave the network as it is. */
function change(name: keyof Settings, text: string): void {
  const found = read(name, text);
  const input = field(name);
  input.toggleAttribute("aria-invalid", false);
  if ("fault" in found) {
    input.setAttribute("aria-invalid", "true");
    return say([found.fault]);
  }
  const nets = state.nets.map((settings, k) =>
    k === edited || SHARED.includes(name) ? { ...settings, [name]: found.value } : settings,
  );
  const isOwn = nets[0]!.data === "own";
  const own = isOwn && !state.own.length ? XOR : state.own;
  const wrong = [...new Set(nets.flatMap((settings) => misfits(settings, isOwn ? own.length : 85)))];
  if (wrong.length && own.length) {
    input.setAttribute("aria-invalid", "true");
    return say(wrong);
  }
  preset = "";
  restart(nets as unknown as State["nets"], own);
}

function compare(): void {
  preset = "";
  edited = state.nets.length > 1 ? 0 : 1;
  const [a] = state.nets;
  restart(state.nets.length > 1 ? [a] : [a, { ...a, method: a.method === "sep-up" ? "none" : "sep-up" }]);
}

function play(isOn = !frame?.isRunning): void {
  if (!isEmpty) tell({ type: "run", isOn, pace: Number($<HTMLSelectElement>("pace").value) });
}

function cure(how: Cure): void {
  if (!$<HTMLButtonElement>(`cure-${how}`).disabled)
    tell({ type: "cure", net: state.nets.length > 1 ? edited : 0, how });
}

function addPoint(event: PointerEvent, canvas: HTMLCanvasElement): void {
  if (state.nets[0].data !== "own") return;
  if (state.own.length >= MOST_POINTS) return say([`There are ${MOST_POINTS} points already, and no more fit.`]);
  const box = canvas.getBoundingClientRect();
  const round = (value: number): number => Math.round(value * 1000) / 1000;
  const x = round(view.low[0] + (view.size * (event.clientX - box.left)) / box.width);
  const y = round(view.low[1] + view.size * (1 - (event.clientY - box.top) / box.height));
  const label = Number(form.querySelector<HTMLInputElement>("[name=class]:checked")!.value) as 0 | 1;
  restart(state.nets, [...state.own, [x, y, label]]);
}

function usePasted(): void {
  const { points, faults } = pasted($<HTMLTextAreaElement>("pasted").value);
  if (!faults.length && !points.length)
    faults.push("There is nothing to use: write a line for each point, such as 0.2, -0.5, 1.");
  if (faults.length) return say(faults);
  restart(state.nets, points);
}

// What depends on how many networks there are.

function build(): void {
  const nets = state.nets.map((settings, k) => {
    const part = document.createElement("section");
    part.className = "card network";
    part.setAttribute("aria-label", `Network ${LETTERS[k]}`);
    part.innerHTML = `<div class="head"><b></b><span class="soft"></span><span class="figures"></span></div>
<canvas tabindex="0" role="application"></canvas>
<p class="legend soft"><span><span class="swatch alive"></span> alive</span> <span><span class="swatch linear"></span> linear</span> <span><span class="swatch dead"></span> dead</span> <span><span class="stroke" style="border-color: var(--points)"></span> dead points, by layer</span></p>`;
    part.querySelector("b")!.textContent = `${letter(k)}${settings.depth} layers × ${settings.width} units`;
    const words = [
      ACTIVATION_NAMES[settings.activation],
      `${STARTS[settings.start]} start`,
      settings.method === "none" ? "" : METHODS[settings.method].split(":")[0]!,
    ];
    part.querySelector(".head .soft")!.textContent = words.filter(Boolean).join(", ");
    listen(part.querySelector("canvas")!, k);
    return part;
  });
  $("networks").replaceChildren(...nets);
  $("maps").className = state.nets[0].data === "own" ? "clickable" : "";
  $("maps").replaceChildren(
    ...state.nets.map((_, k) => {
      const figure = document.createElement("figure");
      const canvas = document.createElement("canvas");
      canvas.setAttribute("role", "img");
      canvas.addEventListener("pointerdown", (event) => addPoint(event, canvas));
      figure.append(canvas);
      if (state.nets.length > 1)
        figure.append(Object.assign(document.createElement("figcaption"), { textContent: LETTERS[k] }));
      return figure;
    }),
  );
  $("shares").replaceChildren(
    ...state.nets.map((_, k) => {
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
    state.nets.length > 1
      ? `<span><span class="stroke"></span> A</span> <span><span class="stroke second"></span> B</span>`
      : "";
  $("loss-legend").innerHTML = strokes;
  $("hollow").hidden = !data.test.count;
}

function listen(canvas: HTMLCanvasElement, net: number): void {
  const settings = state.nets[net]!;
  const at = (event: PointerEvent): Place | null => {
    const box = canvas.getBoundingClientRect();
    const spot = spotAt(canvas, event.clientX - box.left, event.clientY - box.top, settings);
    return spot && { net, ...spot };
  };
  canvas.addEventListener("pointermove", (event) => point(at(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => choose(at(event as PointerEvent)));
  canvas.addEventListener("focus", () => chosen?.net === net || choose({ net, layer: 0, unit: 0 }));
  canvas.addEventListener("keydown", (event) => {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [
      0, 0,
    ];
    if (!dx && !dy) return;
    event.preventDefault();
    const from = chosen?.net === net ? chosen : { layer: 0, unit: 0 };
    const within = (value: number, count: number): number => Math.min(count - 1, Math.max(0, value));
    choose({ net, layer: within(from.layer + dx!, settings.depth), unit: within(from.unit + dy!, settings.width) });
  });
}

const isSame = (a: Place | null, b: Place | null): boolean =>
  a?.net === b?.net && a?.layer === b?.layer && a?.unit === b?.unit;

function point(place: Place | null): void {
  if (isSame(place, hovered)) return;
  hovered = place;
  look();
}

function choose(place: Place | null): void {
  chosen = isSame(place, chosen) ? null : place;
  look();
}

function look(): void {
  latest = hovered ?? chosen ?? latest;
  tell({ type: "probe", place: latest });
}

// Drawing.

function draw(): void {
  isDrawn = true;
  const isRunning = frame?.isRunning ?? false;
  mark(
    $("play"),
    `<span aria-hidden="true">${isRunning ? "❚❚" : "▶"}</span> <span class="word">${isRunning ? "Pause" : "Play"}</span>`,
  );
  for (const id of ["play", "step", "back", "share", "code"]) $<HTMLButtonElement>(id).disabled = isEmpty;
  state.nets.forEach((settings, k) => drawNet(settings, frame?.nets[k], k));
  drawDetail();
  drawNumbers();
  const net = frame?.nets[state.nets.length > 1 ? edited : 0];
  const settings = state.nets[edited] ?? state.nets[0];
  $<HTMLButtonElement>("cure-sep-up").disabled = !net || net.penalises === "UP" || !!net.stopped;
  $<HTMLButtonElement>("cure-mirrored").disabled = !net || settings.width < 2 || settings.method === "farkas";
  $("weighs").hidden = !settings.method.startsWith("sep-") && !net?.penalises;
  const stopped = (frame?.nets ?? []).flatMap((each, k) => (each.stopped ? [letter(k) + each.stopped] : []));
  if (frame && frame.epoch >= MOST_EPOCHS) stopped.push(`The page ends at ${MOST_EPOCHS.toLocaleString("en")} epochs.`);
  if (stopped.length) say(stopped);
  if (frame) tell({ type: "drawn" });
}

function drawNet(settings: Settings, net: Shown | undefined, k: number): void {
  const part = $("networks").children[k] as HTMLElement;
  const canvas = part.querySelector("canvas")!;
  const map = $("maps").children[k]!.querySelector("canvas")!;
  const marked = new Set<number>();
  if (net && chosen?.net === k) net.diedAt.forEach((layer, n) => layer === chosen!.layer && marked.add(n));
  const painted = maps[k];
  drawDecision(map, painted?.values ?? null, painted?.size ?? 0, view, data, marked, colour);
  $("ringed").hidden = !chosen;
  const figures = part.querySelector(".figures")!;
  if (!net || !frame) {
    figures.textContent = "";
    return;
  }
  drawGrid(
    canvas,
    net,
    settings,
    data.train.count,
    chosen?.net === k ? chosen : null,
    hovered?.net === k ? hovered : null,
    colour,
  );
  // A screen reader need not hear of every frame.
  if (!frame.isRunning)
    canvas.setAttribute(
      "aria-label",
      `Units of network ${LETTERS[k]}, layer by layer; the arrow keys go from unit to unit. ${summary(net, frame.epoch, data.train.count)}`,
    );
  map.setAttribute(
    "aria-label",
    `Decision map${letter(k) && ` of ${LETTERS[k]}`}: ${percent(net.accuracy)} of the training points are on the right side`,
  );
  const pace = frame.isRunning && frame.pace ? `<div><span>epochs a second</span> ${Math.round(frame.pace)}</div>` : "";
  const goal = frame.isRunning && frame.epoch < frame.target ? ` of ${frame.target}` : "";
  figures.innerHTML = `${k ? "" : pace}<div><span>epoch</span> ${frame.epoch.toLocaleString("en")}${goal}</div><div><span>loss</span> ${net.loss.toPrecision(3)}</div><div><span>accuracy</span> ${percent(net.accuracy)}</div>`;
}

function drawDetail(): void {
  const place = latest;
  const net = place && frame?.nets[place.net];
  const settings = place && state.nets[place.net];
  const probe = frame?.probe && isSame(frame.probe.place, place) ? frame.probe : null;
  const canvas = $<HTMLCanvasElement>("response");
  const cutoff = settings ? ACTIVATIONS[settings.activation].cutoff : 0;
  canvas.hidden = !place;
  $("detail").classList.toggle("hinting", !place);
  $("about").setAttribute("aria-live", frame?.isRunning ? "off" : "polite");
  if (!place && $("about").dataset["text"]) put($("about"), [{ title: "", body: HINT }]);
  drawResponse(canvas, probe?.response ?? null, probe?.size ?? 0, cutoff, view, data, colour);
  if (!place || !net || !settings) return;
  const lines: Lines[] = [
    aboutUnit(net, settings, place, data.train.count, letter(place.net)),
    aboutLayer(net, settings, place.layer, data.train.count),
  ];
  put($("about"), lines);
}

/** Write headings and sentences, only where they differ: a screen reader reads what changes. */
function put(where: HTMLElement, lines: readonly Lines[]): void {
  const text = JSON.stringify(lines);
  if (where.dataset["text"] === text) return;
  where.dataset["text"] = text;
  const part = (name: string, text: string): HTMLElement[] =>
    text ? [Object.assign(document.createElement(name), { textContent: text })] : [];
  where.replaceChildren(...lines.flatMap(({ title, body }) => [...part("h3", title), ...part("p", body)]));
}

/** Write markup, only where it differs. */
function mark(where: Element, markup: string): void {
  if (marked.get(where) === markup) return;
  marked.set(where, markup);
  where.innerHTML = markup;
}

const marked = new WeakMap<Element, string>();

function drawNumbers(): void {
  const lossCurves: Curve[] = history.map((kept, k) => ({
    values: kept.loss,
    colour: colour.ink,
    dash: k ? [5, 4] : [],
  }));
  const cures = (net?: number): number[] =>
    (frame?.doses ?? []).filter((dose) => net === undefined || dose.net === net).map((dose) => dose.epoch);
  drawCurves($("losses"), lossCurves, powers(lossCurves), cures(), colour);
  $("losses").setAttribute(
    "aria-label",
    `Loss over the epochs: ${frame?.nets.map((net, k) => `${letter(k)}now ${net.loss.toPrecision(3)}`).join(", ") ?? ""}`,
  );
  state.nets.forEach((settings, k) => {
    const canvas = $("shares").children[k]!.querySelector("canvas")!;
    const units = settings.depth * settings.width;
    const kept = history[k];
    const part = (name: Column, of: number): number[] => kept?.[name].map((each) => each / of) ?? [];
    drawCurves(
      canvas,
      [
        { values: part("deadPoints", data.train.count), colour: colour.points, dash: [1.5, 3] },
        { values: part("deadUnits", units), colour: colour.deaths, dash: [6, 4] },
        { values: kept?.accuracy ?? [], colour: colour.ink, dash: [] },
      ],
      shares(),
      cures(k),
      colour,
      110,
    );
    const net = frame?.nets[k];
    if (net)
      canvas.setAttribute(
        "aria-label",
        `Over the epochs: accuracy, dead units and dead points; now ${summary(net, frame!.epoch, data.train.count)}`,
      );
  });
  if (!frame) {
    for (const id of ["census", "scores", "turns"]) mark($(id), "");
    return;
  }
  mark($("census"), counts(frame.nets, letter));
  mark($("scores"), scores(frame.nets, data));
  const turns = frame.nets
    .flatMap((net, k) => net.turns.map((turn) => ({ turn, k })))
    .sort((a, b) => b.turn.epoch - a.turn.epoch)
    .slice(0, 6);
  const lines = turns.length
    ? turns.map(({ turn, k }) => turnText(turn, state.nets[k]!, letter(k)))
    : ["No unit has died or revived yet."];
  mark($("turns"), lines.map((text) => `<li>${text}</li>`).join(""));
}

// Wiring.

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function wire(): void {
  for (const [name, known] of Object.entries({
    data: DATA,
    activation: ACTIVATION_NAMES,
    start: STARTS,
    method: METHODS,
    optimiser: OPTIMISERS,
  }))
    options(name, known);
  $("presets").append(
    ...PRESETS.map(({ name, title, sentence, link }) => {
      const button = Object.assign(document.createElement("button"), {
        type: "button",
        textContent: title,
        title: sentence,
      });
      button.dataset["name"] = name;
      button.addEventListener("click", () => {
        preset = name;
        open(link);
      });
      return button;
    }),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", ({ target }) => {
    const input = target as HTMLInputElement;
    if (input.name === "which") {
      edited = Number(input.value) as 0 | 1;
      fill();
      draw();
    } else if (input.dataset["for"]) change(input.dataset["for"] as keyof Settings, input.value);
    else if (input.name in state.nets[0]) change(input.name as keyof Settings, input.value);
  });
  form.addEventListener("input", ({ target }) => {
    const range = target as HTMLInputElement;
    if (range.dataset["for"]) field(range.dataset["for"]).value = range.value;
  });
  const clicks: Record<string, () => unknown> = {
    play: () => play(),
    step: () => tell({ type: "step" }),
    back: () => restart(),
    "cure-sep-up": () => cure("sep-up"),
    "cure-mirrored": () => cure("mirrored"),
    compare,
    reseed: () => change("seed", String((state.nets[0].seed + 1) % 4294967296)),
    undo: () => restart(state.nets, state.own.slice(0, -1)),
    clear: () => restart(state.nets, []),
    paste: usePasted,
    code: () => {
      $("python").textContent = pytorch(now(), state.nets.length > 1 ? edited : 0);
      $("copied").textContent = "";
      $<HTMLDialogElement>("listing").showModal();
    },
    copy: async () => {
      const isDone = await copy($("python").textContent ?? "");
      $("copied").textContent = isDone ? "Copied." : "The browser did not let the page copy: select the text.";
      if (!isDone) getSelection()?.selectAllChildren($("python"));
    },
    close: () => $<HTMLDialogElement>("listing").close(),
    share: async () => {
      remember();
      const isDone = await copy(location.href);
      $("share").textContent = isDone ? "Link copied" : "See the address bar";
      setTimeout(() => ($("share").textContent = "Copy link"), 2000);
    },
  };
  for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);
  $("pace").addEventListener("change", () => frame?.isRunning && play(true));
  document.addEventListener("keydown", (event) => {
    const at = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || at.closest("input, select, textarea, dialog, summary"))
      return;
    if (event.key === " " && at.closest("button")) return;
    const act = {
      " ": () => play(),
      s: clicks["step"]!,
      r: clicks["back"]!,
      c: clicks["cure-sep-up"]!,
      m: clicks["cure-mirrored"]!,
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  window.addEventListener("hashchange", () => {
    preset = "";
    open(location.hash);
  });
  const wide = matchMedia("(min-width: 70.01rem)");
  const arrange = (): void => void ($<HTMLDetailsElement>("settings").open = wide.matches);
  wide.addEventListener("change", arrange);
  $("settings")
    .querySelector("summary")!
    .addEventListener("click", (event) => wide.matches && event.preventDefault());
  arrange();
  const redraw = (): void => {
    colour = colours();
    draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(redraw).observe($("middle"));
}

put($("about"), [{ title: "", body: HINT }]);
wire();
open(location.hash);
