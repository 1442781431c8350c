// A run from its beginning on: the worker that trains, what it tells, and the address that tells it to others.

import { type Column, type Frame, load, misfits, OPENING, type Order, type Point, readLink, type State, write } from "../engine";
import { fill } from "./controls";
import { $, say } from "./dom";
import { draw } from "./draw";
import { here, letter, now } from "./here";
import { viewOf } from "./map";
import { build } from "./parts";
import { summary } from "./words";

export const XOR: Point[] = [
  [-0.5, -0.5, 0],
  [0.5, 0.5, 0],
  [-0.5, 0.5, 1],
  [0.5, -0.5, 1],
];

const engine = $("engine").textContent ?? "";
const worker = new Worker(URL.createObjectURL(new Blob([`${engine};lab.serve(self)`], { type: "text/javascript" })));
worker.onmessage = ({ data: told }: MessageEvent<Frame>): void => receive(told);
worker.onerror = (event): void => say([`The engine stopped: ${event.message}. Reload the page.`]);

export function tell(order: Order): void {
  worker.postMessage(order);
}

/** Begin anew with this state; an address may ask for some epochs. */
function begin(next: State): void {
  here.state = next;
  const own = here.state.nets[0].data === "own";
  here.data = load(here.state.nets[0], here.state.own);
  here.view = viewOf(here.data, own);
  here.frame = null;
  here.chosen = here.hovered = null;
  const there = here.latest && here.state.nets[here.latest.net];
  if (!here.latest || !there || here.latest.layer >= there.depth || here.latest.unit >= there.width) here.latest = null;
  here.history = [];
  here.maps = [];
  here.isEmpty = here.data.train.count < 1;
  const faults = [...new Set(here.state.nets.flatMap((settings) => misfits(settings, here.data.train.count)))];
  build();
  fill();
  say([...here.linkFaults, ...faults]);
  here.isEmpty ||= faults.length > 0;
  if (here.isEmpty) here.beginning++;
  else tell({ type: "begin", number: ++here.beginning, state: here.state, view: here.view });
  tell({ type: "probe", place: here.latest });
  remember();
  draw();
}

export function restart(nets: State["nets"] = here.state.nets, own: readonly Point[] = here.state.own): void {
  here.linkFaults = [];
  begin({ nets, own, epoch: 0, doses: [] });
}

export function open(hash: string): void {
  const { state: found, faults } = readLink(hash);
  here.linkFaults = faults;
  here.edited = 0;
  const isOwn = found.nets[0].data === "own" && !found.own.length;
  begin(isOwn ? { ...found, own: XOR } : found);
}

/** Write the state into the address; what the page opened on only once it rests, so that it opens on it again. */
export function remember(isAsked = false): void {
  const isOpening = here.preset === OPENING.name && (!here.frame?.epoch || here.frame.isRunning);
  const link = `#${write(now())}`;
  if (link === location.hash || (isOpening && !isAsked)) return;
  try {
    window.history.replaceState(null, "", link);
  } catch {
    location.replace(link);
  }
}

function receive(told: Frame): void {
  if (told.number !== here.beginning) return tell({ type: "drawn" });
  const wasRunning = here.frame?.isRunning;
  const isCured = told.doses.length !== (here.frame?.doses.length ?? 0);
  here.frame = told;
  if (isCured) fill();
  told.nets.forEach((net, k) => {
    const kept = (here.history[k] ??= Object.fromEntries(
      Object.keys(net.history).map((name) => [name, []]),
    ) as unknown as Record<Column, number[]>);
    for (const name of Object.keys(kept) as Column[]) {
      kept[name].length = Math.min(kept[name].length, told.since);
      for (const each of net.history[name]) kept[name].push(each);
    }
    if (net.map) here.maps[k] = { values: net.map, size: told.mapSize };
  });
  if (!told.isRunning) remember();
  if (wasRunning && !told.isRunning)
    $("said").textContent = told.nets
      .map((net, k) => `${letter(k)}${summary(net, told.epoch, here.data.train.count)}`)
      .join(" ");
  if (here.isDrawn) requestAnimationFrame(draw);
  here.isDrawn = false;
}
