// The worker: trains one or two networks in step, and tells the page what there is to draw, no faster than it draws.

import type { Tally } from "./census";
import { load } from "./data";
import type { Dose, State } from "./link";
import { MOST_EPOCHS } from "./link";
import { respond } from "./network";
import { COLUMNS, type Column, Run, type Turn } from "./run";
import type { Cure } from "./settings";

export interface Place {
  readonly net: number;
  readonly layer: number;
  readonly unit: number;
}

export interface View {
  readonly low: [number, number];
  readonly size: number; // of the square that the map shows
}

export type Order =
  | { type: "begin"; number: number; state: State; view: View }
  | { type: "run"; isOn: boolean; pace: number } // epochs a second; 0: as many as there is time for
  | { type: "step" }
  | { type: "cure"; net: 0 | 1; how: Cure }
  | { type: "probe"; place: Place | null }
  | { type: "drawn" };

/** One network, as the page shows it. */
export interface Shown {
  readonly loss: number;
  readonly penalty: number;
  readonly accuracy: number;
  readonly tested: number;
  readonly penalises: string;
  readonly stopped: string;
  readonly units: Uint8Array;
  readonly unitTop: Float64Array;
  readonly unitBottom: Float64Array;
  readonly deadPoints: Uint16Array; // by layer
  readonly diedAt: Int16Array;
  readonly unitTally: Tally;
  readonly pointTally: Tally;
  readonly turns: readonly Turn[]; // the latest, newest first
  readonly history: Record<Column, number[]>; // from `since` on
  readonly map: Float32Array | null; // logits, row by row from the top
}

export interface Frame {
  readonly number: number; // of the beginning it belongs to
  readonly epoch: number;
  readonly isRunning: boolean;
  readonly target: number; // the epoch an address asked for, while it is not reached
  readonly pace: number; // epochs a second, as measured
  readonly since: number;
  readonly doses: readonly Dose[]; // the cures that were given
  readonly nets: readonly Shown[];
  readonly mapSize: number;
  readonly probe: { place: Place; size: number; response: Float32Array } | null;
}

interface Scope {
  postMessage(message: unknown): void;
  onmessage: ((event: { data: Order }) => void) | null;
}

const SLICE = 12; // milliseconds between looks at the mail
const FRAME = 15; // milliseconds between two frames at least
const MAPPED = 4; // a map may take one part in so many of the time
const COARSE = { most: 40, work: 6e6 }; // cells a side of a map while it runs, and products that it may take
const FINE = { most: 100, work: 60e6 };
const PROBED = { most: 64, work: 6e6 };
const FEWEST = 16;

export function serve(scope: Scope): void {
  const channel = new MessageChannel();
  let runs: Run[] = [];
  let view: View = { low: [-1, -1], size: 2 };
  let number = 0;
  let isOn = false;
  let pace = 0;
  let target = 0;
  let doses: Dose[] = []; // still to come, on the way to the target
  let given: Dose[] = [];
  let place: Place | null = null;
  let isFree = true; // the page has drawn the last frame
  let isDue = false; // there is something new
  let isTicking = false;
  let since = 0;
  let [last, mapped, mapping, fresh] = [0, 0, 0, 0];
  let [counted, countedAt, measured] = [0, 0, 0];
  let owed = 0;

  const epoch = (): number => runs[0]?.epoch ?? 0;
  const wants = (): boolean => epoch() < MOST_EPOCHS && runs.some((run) => !run.stopped) && (isOn || epoch() < target);

  function advance(): void {
    dose();
    for (const run of runs) if (!run.step()) run.epoch++;
    counted++;
    dose();
  }

  function dose(): void {
    for (; doses.length && doses[0]!.epoch <= epoch(); doses.shift()) give(doses[0]!);
  }

  function give(one: Dose): void {
    runs[one.net]?.cure(one.how);
    given = [...given, one];
  }

  function tick(): void {
    isTicking = false;
    const begun = performance.now();
    if (wants()) {
      const isHurried = epoch() < target || !pace;
      owed = isHurried ? Infinity : Math.min(owed + (pace * (begun - last)) / 1000, 1 + pace / 10);
      last = begun;
      let isNew = false;
      while (owed >= 1 && wants() && performance.now() - begun < SLICE) {
        advance();
        owed--;
        isNew = true;
      }
      if (!Number.isFinite(owed)) owed = 0;
      isDue ||= isNew;
      if (!wants()) isOn = false;
    }
    if (isDue && isFree && performance.now() - fresh >= FRAME) show();
    if (wants()) again(epoch() < target || !pace ? 0 : ((1 - owed) * 1000) / pace);
    else if (isDue && isFree) again(FRAME); // otherwise "drawn" wakes us
  }

  /** Tick again: at once, but after the mail that has come; or after some milliseconds, and sleep until then. */
  function again(wait = 0): void {
    if (isTicking) return;
    isTicking = true;
    if (wait < 1) channel.port2.postMessage(0);
    else setTimeout(tick, Math.min(wait, FRAME));
  }

  function show(): void {
    const now = performance.now();
    const isRunning = wants();
    if (now - countedAt > 500) {
      measured = isRunning ? (1000 * counted) / (now - countedAt) : measured;
      [counted, countedAt] = [0, now];
    }
    const isMapDue = !isRunning || now - mapped > Math.max(100, MAPPED * mapping);
    const size = cells(isRunning ? COARSE : FINE);
    const frame: Frame = {
      number,
      epoch: epoch(),
      isRunning,
      target,
      pace: measured,
      since,
      doses: given,
      nets: runs.map((run) => shown(run, since, isMapDue ? map(run, size) : null)),
      mapSize: size,
      probe: probe(),
    };
    if (isMapDue) [mapped, mapping] = [performance.now(), performance.now() - now];
    since = (runs[0]?.history.loss.length ?? 0) - 1;
    [isFree, isDue, fresh] = [false, false, now];
    scope.postMessage(frame);
  }

  /** Cells a side, so that the networks at hand can fill them in time. */
  function cells({ most, work }: { most: number; work: number }): number {
    const products = runs.reduce((sum, { network }) => sum + network.depth * network.width ** 2, 0);
    return Math.round(Math.min(most, Math.max(FEWEST, Math.sqrt(work / products))));
  }

  function map(run: Run, size: number): Float32Array {
    return Float32Array.from(respond(run.network, lattice(view, size), size * size));
  }

  function probe(): Frame["probe"] {
    const run = place && runs[place.net];
    if (!place || !run || place.layer >= run.network.depth || place.unit >= run.network.width) return null;
    const size = cells(PROBED);
    return { place, size, response: Float32Array.from(respond(run.network, lattice(view, size), size * size, place)) };
  }

  function obey(order: Order): void {
    switch (order.type) {
      case "begin": {
        const { nets, own } = order.state;
        runs = nets.map((settings) => new Run(settings, load(settings, own)));
        [number, view, target, since, counted, countedAt] = [
          order.number,
          order.view,
          order.state.epoch,
          0,
          0,
          performance.now(),
        ];
        [doses, given] = [[...order.state.doses], []];
        [isOn, measured, last] = [false, 0, performance.now()];
        dose();
        break;
      }
      case "run":
        [isOn, pace, owed, last] = [order.isOn, order.pace, order.isOn ? 1 : 0, performance.now()];
        if (!isOn) [target, doses] = [epoch(), []];
        [counted, countedAt] = [0, performance.now()];
        break;
      case "step":
        [isOn, target] = [false, epoch()];
        if (epoch() < MOST_EPOCHS) advance();
        break;
      case "cure":
        give({ net: order.net, epoch: epoch(), how: order.how });
        since = Math.min(since, epoch());
        break;
      case "probe":
        place = order.place;
        break;
      case "drawn":
        isFree = true;
        if (isDue) again();
        return;
    }
    isDue = true;
    again();
  }

  channel.port1.onmessage = tick;
  scope.onmessage = ({ data }) => obey(data);
}

/** The middles of size × size cells of a view [2, size²], row by row from the top. */
export function lattice(view: View, size: number): Float64Array {
  const count = size * size;
  const x = new Float64Array(2 * count);
  const cell = view.size / size;
  for (let k = 0; k < count; k++) {
    x[k] = view.low[0] + ((k % size) + 0.5) * cell;
    x[count + k] = view.low[1] + view.size - (Math.floor(k / size) + 0.5) * cell;
  }
  return x;
}

function shown(run: Run, since: number, map: Float32Array | null): Shown {
  const { census, network, history } = run;
  const count = run.data.train.count;
  const dead = new Uint16Array(network.depth);
  for (let k = 0; k < network.depth; k++)
    for (let n = 0; n < count; n++) if (census.points[k * count + n] === 1) dead[k]!++;
  return {
    loss: run.loss,
    penalty: run.penalised,
    accuracy: history.accuracy.at(-1)!,
    tested: history.tested.at(-1)!,
    penalises: run.penalises,
    stopped: run.stopped,
    units: census.units,
    unitTop: run.extremes.unitTop,
    unitBottom: run.extremes.unitBottom,
    deadPoints: dead,
    diedAt: census.diedAt,
    unitTally: census.unitTally,
    pointTally: census.pointTally,
    turns: run.turns.slice(-6).reverse(),
    history: Object.fromEntries(COLUMNS.map((name) => [name, history[name].slice(since)])) as Record<Column, number[]>,
    map,
  };
}
