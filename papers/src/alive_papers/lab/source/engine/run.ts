// One network on its way: step by step on all points at once, with the census of every epoch.

import { type Census, census, DEAD } from "./census";
import { Chance } from "./chance";
import type { Data } from "./data";
import { Extremes } from "./extremes";
import { Back, backward, forward, type Network, Pass, settle } from "./network";
import { optimiser, type Step } from "./optimisers";
import { penalty, pull } from "./penalty";
import { axes, type Cure, type Settings } from "./settings";
import { started } from "./starts";

export const COLUMNS = ["loss", "penalty", "accuracy", "tested", "deadUnits", "linearUnits", "deadPoints"] as const;
export type Column = (typeof COLUMNS)[number];

/** The units that died and revived in one step: how many, and one of each. */
export interface Turn {
  readonly epoch: number;
  readonly died: number;
  readonly revived: number;
  readonly one: { readonly died: number; readonly revived: number }; // layer · width + unit
}

export class Run {
  network: Network;
  epoch = 0;
  stopped = ""; // why it cannot go on
  census!: Census;
  logit!: Float64Array; // [N], in eval mode
  loss = 0;
  penalised = 0; // λ·A
  readonly history: Record<Column, number[]>;
  readonly turns: Turn[] = [];
  private axes: string;
  private descend!: Step;
  private training!: Pass;
  private seen!: Pass; // in eval mode: the same as `training` where nothing is normed
  private tested!: Pass | null;
  private measured!: Extremes;
  private counted!: Extremes;
  private back!: Back;
  private readonly logitSlope: Float64Array;

  constructor(
    readonly settings: Settings,
    readonly data: Data,
    readonly keeps = true, // what happened, epoch by epoch
  ) {
    this.axes = axes(settings.method);
    this.history = Object.fromEntries(COLUMNS.map((name) => [name, []])) as unknown as Record<Column, number[]>;
    this.logitSlope = new Float64Array(data.train.count);
    this.network = started(settings, new Chance(settings.seed), data.train);
    this.begin();
    this.look();
  }

  /** The optimiser and the rooms of a network that has just begun. */
  private begin(): void {
    const { network, data, settings } = this;
    const { train, test } = data;
    const isNormed = network.joined === "norm";
    this.descend = optimiser(settings.optimiser, settings.rate, network.parameters.length);
    this.training = new Pass(network, train.x, train.count);
    this.seen = isNormed ? new Pass(network, train.x, train.count) : this.training;
    this.tested = test.count ? new Pass(network, test.x, test.count) : null;
    this.measured = new Extremes(network.depth, network.width, train.count);
    this.counted = isNormed ? new Extremes(network.depth, network.width, train.count) : this.measured;
    this.back = new Back(network, train.count);
  }

  /** Put other numbers in the place of the parameters, and of the running means and variances of norms. */
  set(parameters: ArrayLike<number>, running: readonly ArrayLike<number>[] = []): void {
    this.network.parameters.set(parameters);
    this.network.hidden.forEach(({ norm }, k) => {
      if (norm && running.length) {
        norm.mean.set(running[2 * k]!);
        norm.variance.set(running[2 * k + 1]!);
      }
    });
    this.network.refresh();
    for (const name of COLUMNS) this.history[name].pop();
    this.look();
  }

  /** The gradient of loss and penalty by every parameter. */
  gradient(): Float64Array {
    const { network, training, measured, data, axes } = this;
    const { cutoff } = network.activation;
    const { count, y } = data.train;
    const { weight } = this.settings;
    for (let n = 0; n < count; n++) this.logitSlope[n] = (1 / (1 + Math.exp(-training.logit[n]!)) - y[n]!) / count;
    backward(network, training, this.back, this.logitSlope, (k, g) => {
      if (axes) pull(training, measured, axes, cutoff, weight, k, g);
    });
    return network.slopes;
  }

  /** One step of the optimiser on all points. */
  step(): boolean {
    if (this.stopped) return false;
    const { network, training } = this;
    this.descend(network.parameters, this.gradient());
    if (network.joined === "norm") settle(network, training);
    network.refresh();
    this.epoch++;
    const before = this.census;
    this.look();
    if (this.keeps) this.note(before);
    return true;
  }

  /** Sep-UP asks from now on what it asks; the mirrored start puts other weights in the place of these. */
  cure(how: Cure): void {
    if (this.stopped && how !== "mirrored") return;
    const before = this.census;
    if (how === "sep-up") this.axes = "UP";
    else {
      this.network = started({ ...this.settings, start: "mirrored" }, new Chance(this.settings.seed), this.data.train);
      this.stopped = "";
      this.begin();
    }
    for (const name of COLUMNS) this.history[name].pop();
    this.look();
    if (this.keeps) this.note(before);
  }

  /** Of every unit and point, in eval mode. */
  get extremes(): Extremes {
    return this.counted;
  }

  get penalises(): string {
    return this.axes;
  }

  /** Loss and census of the network as it is. */
  private look(): void {
    const { network, training, seen, data } = this;
    const { cutoff } = network.activation;
    if (seen !== training) {
      forward(network, seen, false);
      this.counted.take(seen);
    }
    forward(network, training, true);
    this.measured.take(training);
    this.census = census(this.counted, cutoff);
    this.logit = seen.logit;
    this.loss = crossEntropy(training.logit, data.train.y);
    this.penalised = this.axes ? this.settings.weight * penalty(this.measured, this.axes, cutoff) : 0;
    if (!Number.isFinite(this.loss + this.penalised))
      this.stopped = `The loss is no longer a finite number after ${this.epoch} epochs. Go back to the start and choose a smaller rate.`;
    if (this.tested) forward(network, this.tested, false);
    if (this.keeps) this.record();
  }

  private record(): void {
    const { unitTally, pointTally } = this.census;
    const row: Record<Column, number> = {
      loss: this.loss,
      penalty: this.penalised,
      accuracy: accuracy(this.logit, this.data.train.y),
      tested: this.tested ? accuracy(this.tested.logit, this.data.test.y) : NaN,
      deadUnits: unitTally.dead,
      linearUnits: unitTally.linear,
      deadPoints: pointTally.dead,
    };
    for (const name of COLUMNS) this.history[name].push(row[name]);
  }

  /** Keep the latest steps in which a unit died or revived. */
  private note(before: Census): void {
    const now = this.census.units;
    const count = { died: 0, revived: 0 };
    const one = { died: -1, revived: -1 };
    for (let k = 0; k < now.length; k++) {
      if ((now[k] === DEAD) === (before.units[k] === DEAD)) continue;
      const what = now[k] === DEAD ? "died" : "revived";
      count[what]++;
      one[what] = k;
    }
    if (count.died + count.revived) this.turns.push({ epoch: this.epoch, ...count, one });
    if (this.turns.length > 1000) this.turns.splice(0, 500);
  }
}

/** Mean binary cross-entropy of logits. */
export function crossEntropy(logit: Float64Array, y: Float64Array): number {
  let sum = 0;
  for (let n = 0; n < y.length; n++) {
    const l = logit[n]!;
    sum += Math.max(l, 0) - l * y[n]! + Math.log1p(Math.exp(-Math.abs(l)));
  }
  return sum / y.length;
}

export function accuracy(logit: Float64Array, y: Float64Array): number {
  let right = 0;
  for (let n = 0; n < y.length; n++) if (logit[n]! > 0 === (y[n] === 1)) right++;
  return y.length ? right / y.length : NaN;
}
