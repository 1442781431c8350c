// The network as a grid of units, a column a layer, and below it the share of points that are dead in each layer.

import { BROKEN, DEAD, LINEAR, type Settings, type Shown } from "../engine";
import { sheet } from "./canvas";
import type { Colours } from "./colours";

export interface Spot {
  readonly layer: number;
  readonly unit: number;
}

const TOP = 4;
const GAP = 14;
const LINE = 84;
const FOOT = 18;
const LEFT = 42;
const RIGHT = 10;
const WIDEST = 44;

function measures(
  width: number,
  { depth, width: units }: Settings,
): { column: number; row: number; left: number; high: number } {
  const column = Math.min(WIDEST, (width - LEFT - RIGHT) / depth);
  const row = Math.max(6, Math.min(42, 256 / units));
  return { column, row, left: LEFT, high: units * row };
}

export function drawGrid(
  canvas: HTMLCanvasElement,
  shown: Shown,
  settings: Settings,
  points: number,
  chosen: Spot | null,
  hovered: Spot | null,
  colour: Colours,
): void {
  const { row, high } = measures(canvas.clientWidth, settings);
  const found = sheet(canvas, TOP + high + GAP + LINE + FOOT);
  if (!found) return;
  const { pen, width } = found;
  const { column, left } = measures(width, settings);
  const across = column * settings.depth;
  if (chosen) {
    pen.fillStyle = colour.mark;
    pen.fillRect(left + chosen.layer * column - 1, 0, column + 2, TOP + high + GAP + LINE);
  }
  const gap = column > 6 ? Math.min(2, column / 6) : column > 3 ? 0.5 : 0;
  for (let k = 0; k < settings.depth; k++)
    for (let j = 0; j < settings.width; j++)
      unit(
        pen,
        shown.units[k * settings.width + j]!,
        left + k * column + gap,
        TOP + j * row + 1,
        column - 2 * gap,
        row - 2,
        colour,
      );
  for (const [spot, thick] of [
    [hovered, 1.5],
    [chosen, 2],
  ] as const) {
    if (!spot) continue;
    pen.strokeStyle = colour.ink;
    pen.lineWidth = thick;
    pen.strokeRect(left + spot.layer * column + gap - 1, TOP + spot.unit * row, column - 2 * gap + 2, row);
  }
  deadLine(pen, shown, points, left, TOP + high + GAP, column, across, colour);
}

/** Dead: dark, small and crossed out. Linear: bright, with a slanted bar. Alive: a full block. */
function unit(
  pen: CanvasRenderingContext2D,
  state: number,
  x: number,
  y: number,
  w: number,
  h: number,
  colour: Colours,
): void {
  pen.fillStyle =
    state === DEAD ? colour.dead : state === LINEAR ? colour.linear : state === BROKEN ? colour.broken : colour.alive;
  const isRoomy = w >= 6 && h >= 6;
  pen.beginPath();
  pen.roundRect(x, y, w, h, isRoomy ? 2.5 : 0);
  pen.fill();
  if (state !== DEAD && state !== LINEAR) return;
  if (!isRoomy) {
    pen.fillStyle = colour.card; // a notch: dead units are narrower than living ones
    if (state === DEAD) pen.fillRect(x, y + h * 0.35, w, h * 0.3);
    return;
  }
  const side = Math.min(w, h) * 0.26;
  const [cx, cy] = [x + w / 2, y + h / 2];
  pen.strokeStyle = state === DEAD ? colour.cross : colour.slash;
  pen.lineWidth = Math.max(1, Math.min(1.6, side / 2));
  pen.beginPath();
  pen.moveTo(cx - side, cy + side);
  pen.lineTo(cx + side, cy - side);
  if (state === DEAD) {
    pen.moveTo(cx - side, cy - side);
    pen.lineTo(cx + side, cy + side);
  }
  pen.stroke();
}

function deadLine(
  pen: CanvasRenderingContext2D,
  shown: Shown,
  points: number,
  left: number,
  top: number,
  column: number,
  across: number,
  colour: Colours,
): void {
  const y = (share: number): number => top + LINE * (1 - share);
  pen.fillStyle = colour.soft;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const share of [0, 1]) {
    pen.fillText(`${100 * share}%`, left - 6, y(share) + (share ? 4 : -3));
    pen.strokeStyle = colour.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(left, Math.round(y(share)) + 0.5);
    pen.lineTo(left + across, Math.round(y(share)) + 0.5);
    pen.stroke();
  }
  const at = (k: number): number => y(points ? shown.deadPoints[k]! / points : 0);
  const middle = (k: number): number => left + (k + 0.5) * column;
  pen.beginPath();
  pen.moveTo(left, at(0));
  const depth = shown.deadPoints.length;
  for (let k = 0; k < depth; k++) pen.lineTo(middle(k), at(k));
  pen.lineTo(left + across, at(depth - 1));
  pen.strokeStyle = colour.points;
  pen.lineWidth = 2;
  pen.stroke();
  pen.lineTo(left + across, y(0));
  pen.lineTo(left, y(0));
  pen.globalAlpha = 0.14;
  pen.fillStyle = colour.points;
  pen.fill();
  pen.globalAlpha = 1;
  pen.fillStyle = colour.soft;
  pen.textBaseline = "top";
  pen.textAlign = "center";
  const every = [1, 2, 5, 10, 20, 50].find((each) => each * column >= 26) ?? 50;
  for (let k = 0; k < depth; k++)
    if (k === 0 || (k + 1) % every === 0)
      if (k === 0 || every === 1 || k * column > 20) pen.fillText(`${k + 1}`, middle(k), y(0) + 5);
}

/** The unit below a place of the canvas; below the units, the layer's first. */
export function spotAt(canvas: HTMLCanvasElement, x: number, y: number, settings: Settings): Spot | null {
  const { column, row, left } = measures(canvas.clientWidth, settings);
  const layer = Math.floor((x - left) / column);
  if (layer < 0 || layer >= settings.depth || y < 0) return null;
  const unit = Math.floor((y - TOP) / row);
  return { layer, unit: unit >= 0 && unit < settings.width ? unit : 0 };
}
