// Curves over the epochs: the loss, on a scale of powers, and shares from 0 to 1.

import { sheet } from "./canvas";
import type { Colours } from "./colours";

export interface Curve {
  readonly values: readonly number[];
  readonly colour: string;
  readonly dash: readonly number[];
}

const LEFT = 38;
const RIGHT = 8;
const TOP = 8;
const FOOT = 20;
const LEAST = 1e-4; // of a loss that is drawn

interface Scale {
  readonly ticks: readonly [number, string][];
  at(value: number): number; // from 0 to 1
}

export function shares(): Scale {
  return {
    ticks: [
      [0, "0"],
      [0.5, "½"],
      [1, "1"],
    ],
    at: (value) => value,
  };
}

export function powers(curves: readonly Curve[]): Scale {
  let high = 1;
  for (const { values } of curves) for (const value of values) if (Number.isFinite(value)) high = Math.max(high, value);
  const top = Math.ceil(Math.log10(high) - 1e-9);
  const bottom = Math.log10(LEAST);
  const ticks = Array.from({ length: top - bottom + 1 }, (_, k): [number, string] => [
    10 ** (bottom + k),
    tick(bottom + k),
  ]);
  const every = Math.ceil(ticks.length / 5);
  return {
    ticks: ticks.filter((_, k) => (ticks.length - 1 - k) % every === 0),
    at: (value) => (Math.log10(Math.max(value, LEAST)) - bottom) / (top - bottom),
  };
}

function tick(power: number): string {
  return power >= 0 && power < 4 ? `${10 ** power}` : power < 0 && power > -3 ? `${10 ** power}` : `1e${power}`;
}

export function drawCurves(
  canvas: HTMLCanvasElement,
  curves: readonly Curve[],
  scale: Scale,
  cures: readonly number[],
  colour: Colours,
  height = 120,
): void {
  const found = sheet(canvas, height);
  if (!found) return;
  const { pen, width } = found;
  const [across, high] = [width - LEFT - RIGHT, height - TOP - FOOT];
  const last = Math.max(1, ...curves.map(({ values }) => values.length - 1));
  const y = (value: number): number => TOP + high * (1 - Math.min(1, Math.max(0, scale.at(value))));
  const x = (epoch: number): number => LEFT + (across * epoch) / last;
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const [value, text] of scale.ticks) {
    pen.strokeStyle = colour.line;
    pen.beginPath();
    pen.moveTo(LEFT, Math.round(y(value)) + 0.5);
    pen.lineTo(LEFT + across, Math.round(y(value)) + 0.5);
    pen.stroke();
    pen.fillStyle = colour.soft;
    pen.fillText(text, LEFT - 6, y(value));
  }
  pen.textBaseline = "alphabetic";
  pen.textAlign = "left";
  pen.fillText("0", LEFT, height - 4);
  pen.textAlign = "right";
  pen.fillText(last.toLocaleString("en"), LEFT + across, height - 4);
  for (const epoch of cures) {
    pen.strokeStyle = colour.ink;
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(x(epoch), TOP);
    pen.lineTo(x(epoch), TOP + high);
    pen.stroke();
    pen.setLineDash([]);
    const isLate = x(epoch) > LEFT + across - 34;
    pen.fillStyle = colour.ink;
    pen.textAlign = isLate ? "right" : "left";
    pen.fillText("cure", x(epoch) + (isLate ? -4 : 4), TOP + high - 4);
  }
  pen.lineJoin = "round";
  for (const { values, colour: own, dash } of curves) {
    pen.strokeStyle = own;
    pen.lineWidth = 1.75;
    pen.setLineDash([...dash]);
    pen.beginPath();
    const stride = Math.max(1, Math.floor(values.length / (3 * across)));
    for (let k = 0; k < values.length; k += stride) if (Number.isFinite(values[k]!)) pen.lineTo(x(k), y(values[k]!));
    if (values.length) pen.lineTo(x(values.length - 1), y(values.at(-1)!));
    pen.stroke();
    pen.setLineDash([]);
  }
}
