// Maps of the plane: what the network decides, and what one unit answers.

import type { Data, Points, View } from "../engine";
import { sheet } from "./canvas";
import { type Colours, rgb } from "./colours";

/** The square that holds all points, with a margin; one's own points have the room from −1 to 1 at least. */
export function viewOf(data: Data, isOwn: boolean): View {
  const { train, test } = data;
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (const { x, count } of [train, test])
    for (let i = 0; i < 2; i++)
      for (let n = 0; n < count; n++) {
        low[i] = Math.min(low[i]!, x[i * count + n]!);
        high[i] = Math.max(high[i]!, x[i * count + n]!);
      }
  if (isOwn) for (let i = 0; i < 2; i++) [low[i], high[i]] = [Math.min(-1, low[i]!), Math.max(1, high[i]!)];
  const reach = Math.max(high[0]! - low[0]!, high[1]! - low[1]!) || 1;
  const size = reach * (isOwn ? 1.04 : 1.24);
  return { low: [(low[0]! + high[0]! - size) / 2, (low[1]! + high[1]! - size) / 2], size };
}

type Paint = (value: number) => readonly [number, number, number];

/** Pictures that were painted, by their numbers: most frames show the map of an earlier one. */
const painted = new WeakMap<Float32Array, { readonly small: OffscreenCanvas; readonly colour: Colours }>();

/** Numbers of a lattice as a picture, smoothed. */
function picture(
  pen: CanvasRenderingContext2D,
  values: Float32Array,
  size: number,
  side: number,
  colour: Colours,
  paint: Paint,
): void {
  let kept = painted.get(values);
  if (kept?.colour !== colour) {
    kept = { small: pixels(values, size, paint), colour };
    painted.set(values, kept);
  }
  pen.save();
  pen.beginPath();
  pen.roundRect(0, 0, side, side, 6);
  pen.clip();
  pen.imageSmoothingQuality = "high";
  pen.drawImage(kept.small, 0, 0, side, side);
  pen.restore();
}

function pixels(values: Float32Array, size: number, paint: Paint): OffscreenCanvas {
  const small = new OffscreenCanvas(size, size);
  const pen = small.getContext("2d")!;
  const image = pen.createImageData(size, size);
  for (let k = 0; k < values.length; k++) {
    const [r, g, b] = paint(values[k]!);
    image.data[4 * k] = r;
    image.data[4 * k + 1] = g;
    image.data[4 * k + 2] = b;
    image.data[4 * k + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  return small;
}

export function drawDecision(
  canvas: HTMLCanvasElement,
  values: Float32Array | null,
  size: number,
  view: View,
  data: Data,
  marked: ReadonlySet<number>,
  colour: Colours,
): void {
  const found = sheet(canvas);
  if (!found) return;
  const { pen, width } = found;
  const [zero, one, card] = [rgb(colour.zero), rgb(colour.one), rgb(colour.card)];
  if (values)
    picture(pen, values, size, width, colour, (logit) => {
      const p = 1 / (1 + Math.exp(-logit));
      const [to, share] = p > 0.5 ? [one, p - 0.5] : [zero, 0.5 - p];
      const part = Number.isFinite(p) ? 0.1 + share : 0;
      return [0, 1, 2].map((c) => card[c]! + (to[c]! - card[c]!) * part) as [number, number, number];
    });
  dots(pen, data.test, view, width, colour, new Set(), true);
  dots(pen, data.train, view, width, colour, marked, false);
}

export function drawResponse(
  canvas: HTMLCanvasElement,
  response: Float32Array | null,
  size: number,
  cutoff: number,
  view: View,
  data: Data,
  colour: Colours,
): void {
  const found = sheet(canvas);
  if (!found) return;
  const { pen, width } = found;
  if (response) {
    const top = response.reduce((most, each) => Math.max(most, each - cutoff), 1e-12);
    const [on, off, card] = [rgb(colour.alive), rgb(colour.off), rgb(colour.card)];
    picture(pen, response, size, width, colour, (z) => {
      if (!(z > cutoff)) return off;
      const part = 0.25 + (0.75 * (z - cutoff)) / top;
      return [0, 1, 2].map((c) => card[c]! + (on[c]! - card[c]!) * part) as [number, number, number];
    });
  }
  dots(pen, data.train, view, width, colour, new Set(), false, 0.55);
}

/** Class 0 are discs, class 1 squares; those of the test are hollow, and marked ones have a ring. */
function dots(
  pen: CanvasRenderingContext2D,
  { x, y, count }: Points,
  view: View,
  side: number,
  colour: Colours,
  marked: ReadonlySet<number>,
  isHollow: boolean,
  part = 1,
): void {
  const r = Math.max(2, Math.min(4, side / 80)) * part + (part < 1 ? 0.8 : 0);
  for (let n = 0; n < count; n++) {
    const px = ((x[n]! - view.low[0]) / view.size) * side;
    const py = side - ((x[count + n]! - view.low[1]) / view.size) * side;
    const isOne = y[n] === 1;
    pen.beginPath();
    if (isOne) pen.rect(px - r * 0.9, py - r * 0.9, r * 1.8, r * 1.8);
    else pen.arc(px, py, r, 0, 2 * Math.PI);
    pen.lineWidth = isHollow ? 1.4 : 1;
    pen.fillStyle = isHollow ? colour.card : isOne ? colour.one : colour.zero;
    pen.strokeStyle = isHollow ? (isOne ? colour.one : colour.zero) : colour.card;
    pen.fill();
    pen.stroke();
    if (!marked.has(n)) continue;
    pen.beginPath();
    pen.arc(px, py, r + 2.5, 0, 2 * Math.PI);
    pen.strokeStyle = colour.deaths;
    pen.lineWidth = 1.25;
    pen.stroke();
  }
}
