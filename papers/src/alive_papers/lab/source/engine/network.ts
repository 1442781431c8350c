// A rectangular network: its numbers, one pass forward and one back. Layers are unit-major, z [C, N].

import { ACTIVATIONS, type Activation } from "./activations";
import type { Architecture, Settings } from "./settings";
import { add, linear, slopesOf, transposed } from "./products";
import { architecture } from "./settings";

const NORM_EPS = 1e-3; // as alive.nn.Rectangular sets its batch norm
const NORM_MOMENTUM = 0.01;
const FARKAS_MARGIN = 1e-3;
export const INPUTS = 2;

/** One linear map, in views of the network's parameters and of their gradient. */
export interface Dense {
  readonly inputs: number;
  readonly units: number;
  readonly weight: Float64Array; // [units, inputs]; of a Farkas layer without the extra unit's row
  readonly bias: Float64Array; // [units]; of a Farkas layer the extra unit's comes last
  readonly weightSlope: Float64Array;
  readonly biasSlope: Float64Array;
  readonly norm: Norm | null;
  readonly farkas: Farkas | null;
}

interface Norm {
  readonly scale: Float64Array; // [C]
  readonly shift: Float64Array;
  readonly scaleSlope: Float64Array;
  readonly shiftSlope: Float64Array;
  readonly mean: Float64Array; // running, as eval mode uses them
  readonly variance: Float64Array;
}

/** The plain layer that a Farkas layer computes, and the place of its extra unit. */
interface Farkas {
  readonly place: number;
  readonly weight: Float64Array; // [units, inputs]
  readonly bias: Float64Array;
  readonly weightSlope: Float64Array;
  readonly biasSlope: Float64Array;
}

export class Network {
  readonly depth: number;
  readonly width: number;
  readonly joined: Architecture;
  readonly activation: Activation;
  readonly parameters: Float64Array;
  readonly slopes: Float64Array;
  readonly hidden: Dense[];
  readonly output: Dense;
  private used = 0;

  constructor(settings: Pick<Settings, "depth" | "width" | "method" | "activation">, places?: readonly number[]) {
    this.depth = settings.depth;
    this.width = settings.width;
    this.joined = architecture(settings.method);
    this.activation = ACTIVATIONS[settings.activation];
    const count = this.size();
    this.parameters = new Float64Array(count);
    this.slopes = new Float64Array(count);
    this.hidden = Array.from({ length: this.depth }, (_, k) =>
      this.dense(k ? this.width : INPUTS, this.width, this.joined, places?.[k] ?? this.width - 1),
    );
    this.output = this.dense(this.width, 1, "plain", 0);
  }

  private size(): number {
    const { depth, width, joined } = this;
    const rows = joined === "farkas" ? width - 1 : width;
    const vectors = joined === "norm" ? 3 * width : width;
    return rows * (INPUTS + (depth - 1) * width) + depth * vectors + width + 1;
  }

  private take(count: number): [Float64Array, Float64Array] {
    const from = this.used;
    this.used += count;
    return [this.parameters.subarray(from, this.used), this.slopes.subarray(from, this.used)];
  }

  private dense(inputs: number, units: number, joined: Architecture, place: number): Dense {
    const isFarkas = joined === "farkas";
    const [weight, weightSlope] = this.take((isFarkas ? units - 1 : units) * inputs);
    const [bias, biasSlope] = this.take(units);
    let norm: Norm | null = null;
    if (joined === "norm") {
      const [scale, scaleSlope] = this.take(units);
      const [shift, shiftSlope] = this.take(units);
      norm = {
        scale: scale.fill(1),
        scaleSlope,
        shift,
        shiftSlope,
        mean: new Float64Array(units),
        variance: new Float64Array(units).fill(1),
      };
    }
    const own = (count: number): Float64Array => new Float64Array(count);
    const farkas = isFarkas
      ? {
          place,
          weight: own(units * inputs),
          bias: own(units),
          weightSlope: own(units * inputs),
          biasSlope: own(units),
        }
      : null;
    return { inputs, units, weight, bias, weightSlope, biasSlope, norm, farkas };
  }

  /** Bring what is computed from the parameters up to date. */
  refresh(): void {
    for (const layer of this.hidden) if (layer.farkas) extend(layer, layer.farkas, this.activation.cutoff);
  }
}

/** The least bias that the extra unit may have: (c + δ)κ − Σ μ b, where μ = 1/(m−1) and so κ = 2. */
function least(layer: Dense, cutoff: number): number {
  const free = layer.units - 1;
  let sum = 0;
  for (let j = 0; j < free; j++) sum += layer.bias[j]!;
  return 2 * (cutoff + FARKAS_MARGIN) - sum / free;
}

/** Write the rows of the plain layer: those of the free units, and minus their mean at the extra unit's place. */
function extend(layer: Dense, farkas: Farkas, cutoff: number): void {
  const { inputs, units, weight, bias } = layer;
  const extra = farkas.weight.subarray(farkas.place * inputs, (farkas.place + 1) * inputs).fill(0);
  for (let j = 0, free = 0; j < units; j++) {
    if (j === farkas.place) continue;
    for (let i = 0; i < inputs; i++) {
      farkas.weight[j * inputs + i] = weight[free * inputs + i]!;
      extra[i]! += weight[free * inputs + i]!;
    }
    farkas.bias[j] = bias[free++]!;
  }
  for (let i = 0; i < inputs; i++) extra[i] = -(extra[i]! / (units - 1));
  farkas.bias[farkas.place] = Math.max(least(layer, cutoff), bias[units - 1]!);
}

/** From the gradient of the plain layer to that of the Farkas layer's own numbers. */
function fold(layer: Dense, farkas: Farkas, cutoff: number): void {
  const { inputs, units, bias, weightSlope, biasSlope } = layer;
  const { place } = farkas;
  const share = -1 / (units - 1);
  const bound = least(layer, cutoff);
  const own = bias[units - 1]!;
  const toBound = (bound > own ? 1 : bound === own ? 0.5 : 0) * farkas.biasSlope[place]!;
  for (let j = 0, free = 0; j < units; j++) {
    if (j === place) continue;
    for (let i = 0; i < inputs; i++)
      weightSlope[free * inputs + i] =
        farkas.weightSlope[j * inputs + i]! + share * farkas.weightSlope[place * inputs + i]!;
    biasSlope[free++] = farkas.biasSlope[j]! + share * toBound;
  }
  biasSlope[units - 1] = farkas.biasSlope[place]! - toBound;
}

/** What one pass over N points leaves, layer by layer. */
export class Pass {
  readonly u: Float64Array[]; // before the norm, normalised in place to x̂
  readonly z: Float64Array[];
  readonly h: Float64Array[];
  readonly logit: Float64Array;
  readonly mean: Float64Array[]; // of the batch, by layer
  readonly variance: Float64Array[];

  constructor(
    network: Network,
    readonly x: Float64Array,
    readonly count: number,
  ) {
    const layers = (size: number, wanted = true): Float64Array[] =>
      Array.from({ length: wanted ? network.depth : 0 }, () => new Float64Array(size));
    const isNormed = network.joined === "norm";
    this.u = layers(network.width * count, isNormed);
    this.z = layers(network.width * count);
    this.h = layers(network.width * count);
    this.mean = layers(network.width, isNormed);
    this.variance = layers(network.width, isNormed);
    this.logit = new Float64Array(count);
  }
}

/** Fill a pass. In training, norms take mean and variance of the batch; otherwise the running ones. */
export function forward(network: Network, pass: Pass, training: boolean): void {
  const { count } = pass;
  let h = pass.x;
  for (let k = 0; k < network.depth; k++) {
    const layer = network.hidden[k]!;
    const z = pass.z[k]!;
    const { weight, bias } = layer.farkas ?? layer;
    linear(weight, bias, h, z, layer.units, layer.inputs, count);
    if (layer.norm) {
      const [mean, variance] = training ? [pass.mean[k]!, pass.variance[k]!] : [layer.norm.mean, layer.norm.variance];
      if (training) moments(z, mean, variance, count);
      normalise(layer.norm, mean, variance, z, pass.u[k]!, count);
    }
    if (network.joined === "skip" && k) add(pass.z[k - 1]!, z);
    activate(network.activation, z, pass.h[k]!);
    h = pass.h[k]!;
  }
  const { weight, bias, inputs } = network.output;
  linear(weight, bias, h, pass.logit, 1, inputs, count);
}

/** Let the running mean and variance of all norms follow the batch; torch takes the unbiased variance. */
export function settle(network: Network, pass: Pass): void {
  const unbiased = pass.count / (pass.count - 1);
  network.hidden.forEach(({ norm, units }, k) => {
    for (let j = 0; norm && j < units; j++) {
      norm.mean[j]! += NORM_MOMENTUM * (pass.mean[k]![j]! - norm.mean[j]!);
      norm.variance[j]! += NORM_MOMENTUM * (unbiased * pass.variance[k]![j]! - norm.variance[j]!);
    }
  });
}

/** Rooms that the way back needs. */
export class Back {
  g: Float64Array; // ∂/∂z of the layer that is being left
  below: Float64Array;
  readonly past: Float64Array; // what flows down a skip

  constructor(network: Network, count: number) {
    [this.g, this.below, this.past] = [0, 0, 0].map(() => new Float64Array(network.width * count)) as [
      Float64Array,
      Float64Array,
      Float64Array,
    ];
  }
}

/** Gradient of all parameters, from ∂/∂logit [N] and what `pull` adds to ∂/∂z of a layer. */
export function backward(
  network: Network,
  pass: Pass,
  room: Back,
  logitSlope: Float64Array,
  pull: (k: number, g: Float64Array) => void,
): void {
  const { count } = pass;
  const { depth, output, joined } = network;
  slopesOf(output.weightSlope, output.biasSlope, logitSlope, pass.h[depth - 1]!, 1, output.inputs, count);
  transposed(output.weight, logitSlope, room.below, 1, output.inputs, count);
  for (let k = depth - 1; k >= 0; k--) {
    const layer = network.hidden[k]!;
    [room.g, room.below] = [room.below, room.g];
    const g = room.g;
    deactivate(network.activation, pass.z[k]!, g);
    pull(k, g);
    if (joined === "skip") {
      if (k < depth - 1) add(room.past, g);
      if (k) room.past.set(g);
    }
    if (layer.norm) normaliseBack(layer.norm, pass.u[k]!, pass.variance[k]!, g, count);
    const { weight, weightSlope, biasSlope } = layer.farkas ?? layer;
    slopesOf(weightSlope, biasSlope, g, k ? pass.h[k - 1]! : pass.x, layer.units, layer.inputs, count);
    if (layer.farkas) fold(layer, layer.farkas, network.activation.cutoff);
    if (k) transposed(weight, g, room.below, layer.units, layer.inputs, count);
  }
}

function activate(activation: Activation, z: Float64Array, h: Float64Array): void {
  if (activation === ACTIVATIONS.relu) for (let k = 0; k < z.length; k++) h[k] = z[k]! > 0 || z[k] !== z[k] ? z[k]! : 0;
  else for (let k = 0; k < z.length; k++) h[k] = activation.value(z[k]!);
}

function deactivate(activation: Activation, z: Float64Array, g: Float64Array): void {
  if (activation === ACTIVATIONS.relu) for (let k = 0; k < z.length; k++) g[k] = z[k]! > 0 ? g[k]! : 0;
  else for (let k = 0; k < z.length; k++) g[k]! *= activation.slope(z[k]!);
}

function moments(u: Float64Array, mean: Float64Array, variance: Float64Array, count: number): void {
  for (let j = 0; j < mean.length; j++) {
    let sum = 0;
    for (let n = 0; n < count; n++) sum += u[j * count + n]!;
    mean[j] = sum / count;
    let square = 0;
    for (let n = 0; n < count; n++) square += (u[j * count + n]! - mean[j]!) ** 2;
    variance[j] = square / count;
  }
}

function normalise(
  norm: Norm,
  mean: Float64Array,
  variance: Float64Array,
  z: Float64Array,
  hat: Float64Array,
  count: number,
): void {
  for (let j = 0; j < mean.length; j++) {
    const inverse = 1 / Math.sqrt(variance[j]! + NORM_EPS);
    for (let k = j * count; k < (j + 1) * count; k++) {
      hat[k] = (z[k]! - mean[j]!) * inverse;
      z[k] = hat[k]! * norm.scale[j]! + norm.shift[j]!;
    }
  }
}

/** From ∂/∂z behind the norm to ∂/∂u before it, in place. */
function normaliseBack(norm: Norm, hat: Float64Array, variance: Float64Array, g: Float64Array, count: number): void {
  for (let j = 0; j < variance.length; j++) {
    const [from, to] = [j * count, (j + 1) * count];
    let sum = 0;
    let along = 0;
    for (let k = from; k < to; k++) {
      sum += g[k]!;
      along += g[k]! * hat[k]!;
    }
    norm.shiftSlope[j] = sum;
    norm.scaleSlope[j] = along;
    const factor = norm.scale[j]! / Math.sqrt(variance[j]! + NORM_EPS);
    for (let k = from; k < to; k++) g[k] = factor * (g[k]! - sum / count - (hat[k]! * along) / count);
  }
}

const AT_ONCE = 256;

/** In eval mode, what one unit of a layer computes of many points [2, N]; of the output where no layer is named. */
export function respond(
  network: Network,
  x: Float64Array,
  count: number,
  place?: { layer: number; unit: number },
): Float64Array {
  const result = new Float64Array(count);
  const size = network.width * AT_ONCE;
  let [z, h, last] = [new Float64Array(size), new Float64Array(size), new Float64Array(size)];
  const hat = new Float64Array(network.joined === "norm" ? size : 0);
  for (let from = 0; from < count; from += AT_ONCE) {
    const some = Math.min(AT_ONCE, count - from);
    const used = network.width * some;
    const inputs = new Float64Array(INPUTS * some);
    for (let i = 0; i < INPUTS; i++) inputs.set(x.subarray(i * count + from, i * count + from + some), i * some);
    for (let k = 0; k <= (place?.layer ?? network.depth - 1); k++) {
      const layer = network.hidden[k]!;
      const { weight, bias } = layer.farkas ?? layer;
      linear(weight, bias, k ? h : inputs, z, layer.units, layer.inputs, some);
      if (layer.norm) normalise(layer.norm, layer.norm.mean, layer.norm.variance, z, hat, some);
      if (network.joined === "skip" && k) add(last.subarray(0, used), z.subarray(0, used));
      activate(network.activation, z.subarray(0, used), h);
      [z, last] = [last, z];
    }
    if (place) result.set(last.subarray(place.unit * some, (place.unit + 1) * some), from);
    else
      linear(network.output.weight, network.output.bias, h, result.subarray(from, from + some), 1, network.width, some);
  }
  return result;
}
