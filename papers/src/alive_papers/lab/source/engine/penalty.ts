// The separation penalty (Jumpstart): s = ½ relu(1 − top) + ½ relu(1 + bottom), of every unit (U) and point (P).
// Their sum: for each axis the mean of s² over a layer's slacks, of these the mean over layers, summed over axes.

import type { Extremes } from "./extremes";
import type { Pass } from "./network";

/** Which axes can be satisfied at all: an extreme over one value cannot. */
function asked(axes: string, found: Extremes): { units: boolean; points: boolean } {
  return { units: axes.includes("U") && found.count > 1, points: axes.includes("P") && found.units > 1 };
}

function slack(top: number, bottom: number, cutoff: number): number {
  return 0.5 * Math.max(0, 1 - (top - cutoff)) + 0.5 * Math.max(0, 1 + (bottom - cutoff));
}

function meanSquare(tops: Float64Array, bottoms: Float64Array, cutoff: number): number {
  let sum = 0;
  for (let k = 0; k < tops.length; k++) sum += slack(tops[k]!, bottoms[k]!, cutoff) ** 2;
  return sum / tops.length;
}

/** A of the objective C + λ·A. All layers have as many slacks, so that the mean of means is the mean of all. */
export function penalty(found: Extremes, axes: string, cutoff: number): number {
  const { units, points } = asked(axes, found);
  return (
    (units ? meanSquare(found.unitTop, found.unitBottom, cutoff) : 0) +
    (points ? meanSquare(found.pointTop, found.pointBottom, cutoff) : 0)
  );
}

/** Add λ·∂A/∂z of one layer to g [C, N]; equal extremes share the gradient. */
export function pull(
  pass: Pass,
  found: Extremes,
  axes: string,
  cutoff: number,
  weight: number,
  k: number,
  g: Float64Array,
): void {
  const { units, count, layers } = found;
  const wanted = asked(axes, found);
  const z = pass.z[k]!;
  if (wanted.units)
    for (let j = 0; j < units; j++)
      share(
        z,
        g,
        j * count,
        1,
        count,
        found.unitTop[k * units + j]!,
        found.unitBottom[k * units + j]!,
        cutoff,
        weight / (layers * units),
      );
  if (wanted.points)
    for (let n = 0; n < count; n++)
      share(
        z,
        g,
        n,
        count,
        units,
        found.pointTop[k * count + n]!,
        found.pointBottom[k * count + n]!,
        cutoff,
        weight / (layers * count),
      );
}

/** One group of entries, `first`, `first + stride` …: the gradient of factor·s² with s of its top and bottom. */
function share(
  z: Float64Array,
  g: Float64Array,
  first: number,
  stride: number,
  size: number,
  top: number,
  bottom: number,
  cutoff: number,
  factor: number,
): void {
  const slope = factor * slack(top, bottom, cutoff); // 2 s · ½
  if (!(slope > 0)) return;
  const last = first + stride * size;
  const isLow = 1 - (top - cutoff) > 0;
  const isHigh = 1 + (bottom - cutoff) > 0;
  let tops = 0;
  let bottoms = 0;
  for (let at = first; at < last; at += stride) {
    if (z[at] === top) tops++;
    if (z[at] === bottom) bottoms++;
  }
  for (let at = first; at < last; at += stride) {
    if (isLow && z[at] === top) g[at]! -= slope / tops;
    if (isHigh && z[at] === bottom) g[at]! += slope / bottoms;
  }
}
