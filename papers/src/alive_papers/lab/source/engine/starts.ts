// How the weights start (alive.nn.init), from the same draws in the same order.

import type { Chance } from "./chance";
import { forward, Network, Pass } from "./network";
import type { Points } from "./data";
import type { Settings, Start } from "./settings";

/** Layers before any unit was given up: weight [units, inputs] and bias. */
interface Plain {
  readonly inputs: number;
  readonly units: number;
  readonly weight: Float64Array;
  readonly bias: Float64Array;
}

type Initialiser = (hidden: readonly Plain[], output: Plain, chance: Chance) => void;

const INITIALISERS: Record<Start, Initialiser> = {
  glorot(hidden, output, chance) {
    for (const { weight, inputs, units } of [...hidden, output])
      chance.uniform(weight, Math.sqrt(6 / (inputs + units)));
  },
  kaiming(hidden, output, chance) {
    for (const { weight, inputs } of [...hidden, output]) chance.normal(weight, Math.sqrt(2) / Math.sqrt(inputs));
  },
  torch(hidden, output, chance) {
    for (const { weight, bias, inputs } of [...hidden, output]) {
      chance.uniform(weight, 1 / Math.sqrt(inputs));
      chance.uniform(bias, 1 / Math.sqrt(inputs));
    }
  },
  zeros(_, output, chance) {
    INITIALISERS.glorot([], output, chance);
  },
  mirrored(hidden, output, chance) {
    const share = 1 / Math.sqrt(hidden.length + 1);
    [...hidden, output].forEach((layer, k) => {
      mirror(layer, k === 0, layer === output, chance);
      const noise = new Float64Array(layer.weight.length);
      chance.normal(noise, share * Math.sqrt(2 / (layer.inputs + layer.units)));
      for (let each = 0; each < noise.length; each++) layer.weight[each]! += noise[each]!;
    });
  },
};

/** Units in pairs that see u and −u, so that relu(u) − relu(−u) = u at every depth. */
function mirror({ inputs, units, weight }: Plain, isFirst: boolean, isLast: boolean, chance: Chance): void {
  const pairs = Math.floor(inputs / 2); // of units that are read
  const carried = isFirst ? inputs : pairs;
  const rows = isLast ? units : Math.floor(units / 2);
  const core = isLast
    ? glorot(rows, carried, chance)
    : rows === carried
      ? identity(rows)
      : orthogonal(rows, carried, chance);
  const all = isLast
    ? core
    : [...core, ...core.map((row) => row.map((w) => -w)), ...glorot(units % 2, carried, chance)];
  all.forEach((row, j) => {
    row.forEach((w, i) => {
      weight[j * inputs + i] = w;
      if (!isFirst) weight[j * inputs + pairs + i] = -w;
    });
  });
}

function glorot(rows: number, columns: number, chance: Chance): number[][] {
  const drawn = new Float64Array(rows * columns);
  chance.uniform(drawn, Math.sqrt(6 / (rows + columns)));
  return Array.from({ length: rows }, (_, j) => [...drawn.subarray(j * columns, (j + 1) * columns)]);
}

function identity(size: number): number[][] {
  return Array.from({ length: size }, (_, j) => Array.from({ length: size }, (_, i) => (i === j ? 1 : 0)));
}

/** Columns, or rows where these are fewer, at right angles and of length 1: those of normal numbers, one after the other. */
function orthogonal(rows: number, columns: number, chance: Chance): number[][] {
  const drawn = new Float64Array(rows * columns);
  chance.normal(drawn, 1);
  const isWide = rows < columns;
  const [few, many] = isWide ? [rows, columns] : [columns, rows];
  const at = (vector: number, entry: number): number => (isWide ? vector * columns + entry : entry * columns + vector);
  const basis: number[][] = [];
  for (let v = 0; v < few; v++) {
    const own = Array.from({ length: many }, (_, e) => drawn[at(v, e)]!);
    for (const other of basis) {
      const along = dot(own, other);
      other.forEach((each, e) => (own[e]! -= along * each));
    }
    const length = Math.sqrt(dot(own, own));
    basis.push(own.map((each) => each / length));
  }
  return Array.from({ length: rows }, (_, j) =>
    Array.from({ length: columns }, (_, i) => (isWide ? basis[j]![i]! : basis[i]![j]!)),
  );
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, each, k) => sum + each * b[k]!, 0);
}

/** Start the plain layers of a network; norms and Farkas layers are another matter. */
function fill(network: Network, start: Start, chance: Chance): void {
  for (const { weight, bias } of [...network.hidden, network.output]) {
    weight.fill(0);
    bias.fill(0);
  }
  INITIALISERS[start](network.hidden, network.output, chance);
}

/** The network as it starts. A Farkas layer gives up its quietest unit on these points, as alive.surgery.to_farkas does. */
export function started(settings: Settings, chance: Chance, train: Points): Network {
  const isFarkas = settings.method === "farkas";
  const network = new Network(isFarkas ? { ...settings, method: "none" } : settings);
  fill(network, settings.start, chance);
  return isFarkas ? withoutQuietest(network, settings, train) : network;
}

function withoutQuietest(plain: Network, settings: Settings, train: Points): Network {
  const pass = new Pass(plain, train.x, train.count);
  forward(plain, pass, false);
  const places = pass.z.map((z) => quietest(z, plain.width, train.count));
  const network = new Network(settings, places);
  network.hidden.forEach((layer, k) => {
    const from = plain.hidden[k]!;
    const place = places[k]!;
    const kept = Array.from({ length: layer.units }, (_, j) => j).filter((j) => j !== place);
    kept.forEach((j, free) => {
      layer.weight.set(from.weight.subarray(j * layer.inputs, (j + 1) * layer.inputs), free * layer.inputs);
      layer.bias[free] = from.bias[j]!;
    });
    layer.bias[layer.units - 1] = from.bias[place]!;
  });
  network.output.weight.set(plain.output.weight);
  network.output.bias.set(plain.output.bias);
  network.refresh();
  return network;
}

/** The unit whose largest pre-activation is least; the first of several. */
function quietest(z: Float64Array, units: number, count: number): number {
  let found = 0;
  let least = Infinity;
  for (let j = 0; j < units; j++) {
    let top = -Infinity;
    for (let n = 0; n < count; n++) top = Math.max(top, z[j * count + n]!);
    if (top < least) [found, least] = [j, top];
  }
  return found;
}
