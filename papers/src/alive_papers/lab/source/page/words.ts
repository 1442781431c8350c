// What the page says of units, layers and the whole network.

import {
  ACTIVATION_NAMES,
  BROKEN,
  CURES,
  type Data,
  DEAD,
  type Dose,
  LINEAR,
  METHODS,
  type Place,
  type Settings,
  type Shown,
  STARTS,
  type Tally,
  type Turn,
} from "../engine";

export interface Lines {
  readonly title: string;
  readonly body: string;
}

export const HINT =
  "Point at a unit to see what it answers; click a layer to see who dies there. With the keyboard: Tab to the network, then the arrow keys.";

/** Activation, start and method of a network, and the cures it was given. */
export function made(settings: Settings, doses: readonly Dose[]): string {
  const method = settings.method === "none" ? [] : [METHODS[settings.method].split(":")[0]!];
  const cures = doses.map(({ how, epoch }) => `${CURES[how]} from epoch ${epoch.toLocaleString("en")} on`);
  return [ACTIVATION_NAMES[settings.activation], `${STARTS[settings.start]} start`, ...method, ...cures].join(", ");
}

export function percent(share: number): string {
  return Number.isFinite(share) ? `${(100 * share).toFixed(share === 1 || share === 0 ? 0 : 1)}%` : "none";
}

const number = (value: number): string =>
  (value === 0 ? "0" : Math.abs(value) < 1e-3 ? value.toExponential(1) : value.toFixed(3)).replace("-", "−");

export function aboutUnit(
  net: Shown,
  settings: Settings,
  { layer, unit }: Place,
  points: number,
  letter: string,
): Lines {
  const at = layer * settings.width + unit;
  const [top, bottom] = [net.unitTop[at]!, net.unitBottom[at]!];
  const said: Record<number, string> = {
    [DEAD]: `Dead: it passes none of the ${points} points. Its pre-activation is ${number(top)} at most.`,
    [LINEAR]: `Linear: it is on for all ${points} points and bends nothing. Its pre-activation is ${number(bottom)} at least.`,
    [BROKEN]: "Broken: its pre-activation is not a finite number.",
  };
  const alive = `Alive: on for some points, off for others. Its pre-activations go from ${number(bottom)} to ${number(top)}.`;
  return { title: `${letter}Layer ${layer + 1}, unit ${unit + 1}`, body: said[net.units[at]!] ?? alive };
}

export function aboutLayer(net: Shown, settings: Settings, layer: number, points: number): Lines {
  const states = net.units.subarray(layer * settings.width, (layer + 1) * settings.width);
  const count = (state: number): number => states.reduce((sum, each) => sum + Number(each === state), 0);
  const units = [`${count(DEAD)} dead`, `${count(LINEAR)} linear`, `${count(0)} alive`].join(", ");
  const dead = net.deadPoints[layer]!;
  const first = net.diedAt.reduce((sum, each) => sum + Number(each === layer), 0);
  const died = dead
    ? ` ${dead} of ${points} points are dead here${first ? `, ${first === dead ? "all" : first} of them for the first time` : ", all since an earlier layer"}.`
    : " No point dies here.";
  return { title: `Layer ${layer + 1}`, body: `Units: ${units}.${died}` };
}

export function summary(net: Shown, epoch: number, points: number): string {
  const { unitTally: units, pointTally: dead } = net;
  const total = units.dead + units.linear + units.nonlinear + units.broken;
  return `Epoch ${epoch}: accuracy ${percent(net.accuracy)}, ${units.dead} of ${total} units dead, ${units.linear} linear, ${dead.dead} of ${points} points dead.`;
}

export function turnText({ epoch, died, revived, one }: Turn, { width }: Settings, letter: string): string {
  const who = (count: number, at: number): string =>
    count > 1 ? `${count} units` : `unit ${(at % width) + 1} of layer ${Math.floor(at / width) + 1}`;
  const said = [died ? `${who(died, one.died)} died` : "", revived ? `${who(revived, one.revived)} revived` : ""];
  return `${letter}Epoch ${epoch.toLocaleString("en")}: ${said.filter(Boolean).join(", ")}`;
}

/** The census: how many units and points are in which state, and two rows a network. */
export function counts(nets: readonly Shown[], letter: (net: number) => string): string {
  const isBroken = nets.some((net) => net.unitTally.broken || net.pointTally.broken);
  const states = ["dead", "linear", "nonlinear", ...(isBroken ? ["broken"] : [])] as (keyof Tally)[];
  const row = (name: string, tally: Tally, isGap: boolean): string =>
    `<tr${isGap ? ' class="gap"' : ""}><th scope="row">${name}</th>${states.map((state) => `<td>${tally[state]}</td>`).join("")}<td class="soft">${states.reduce((sum, state) => sum + tally[state], 0)}</td></tr>`;
  const head = states.map((state) => `<th scope="col">${state === "nonlinear" ? "alive" : state}</th>`).join("");
  const body = nets
    .map((net, k) => row(`${letter(k)}units`, net.unitTally, k > 0) + row(`${letter(k)}points`, net.pointTally, false))
    .join("");
  return `<thead><tr><td></td>${head}<th scope="col">all</th></tr></thead><tbody>${body}</tbody>`;
}

/** How well it does, a column a network. */
export function scores(nets: readonly Shown[], data: Data): string {
  const row = (name: string, cell: (net: Shown) => string): string =>
    `<tr><th scope="row">${name}</th>${nets.map((net) => `<td>${cell(net)}</td>`).join("")}</tr>`;
  const head = nets.length > 1 ? `<thead><tr><td></td><th scope="col">A</th><th scope="col">B</th></tr></thead>` : "";
  const body = [
    row("training accuracy", (net) => percent(net.accuracy)),
    data.test.count ? row("test accuracy", (net) => percent(net.tested)) : "",
    row("loss", (net) => net.loss.toPrecision(3)),
    nets.some((net) => net.penalises)
      ? row("weighted penalty", (net) => (net.penalises ? net.penalty.toPrecision(3) : "none"))
      : "",
  ];
  return `${head}<tbody>${body.join("")}</tbody>`;
}
