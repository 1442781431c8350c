// Who is dead, linear or nonlinear (alive.census): units over all points, points over the units of a layer.

import type { Extremes } from "./extremes";

export const NONLINEAR = 0;
export const DEAD = 1;
export const LINEAR = 2;
export const BROKEN = 3; // a number is not finite

export interface Tally {
  readonly nonlinear: number;
  readonly dead: number;
  readonly linear: number;
  readonly broken: number;
}

export interface Census {
  readonly units: Uint8Array; // [L, C], the state of each
  readonly points: Uint8Array; // [L, N]
  readonly diedAt: Int16Array; // [N], the first layer that maps the point to zeros, or −1
  readonly unitTally: Tally;
  readonly pointTally: Tally; // over all layers: dead in some layer, linear in every layer
}

export function census(found: Extremes, cutoff: number): Census {
  const units = states(found.unitTop, found.unitBottom, cutoff);
  const points = states(found.pointTop, found.pointBottom, cutoff);
  const { layers, count } = found;
  const diedAt = new Int16Array(count).fill(-1);
  const overall = new Uint8Array(count);
  for (let n = 0; n < count; n++) {
    let linear = 0;
    let isBroken = false;
    for (let k = layers - 1; k >= 0; k--) {
      const state = points[k * count + n];
      if (state === DEAD) diedAt[n] = k;
      if (state === LINEAR) linear++;
      isBroken ||= state === BROKEN;
    }
    overall[n] = isBroken ? BROKEN : diedAt[n]! >= 0 ? DEAD : linear === layers ? LINEAR : NONLINEAR;
  }
  return { units, points, diedAt, unitTally: tally(units), pointTally: tally(overall) };
}

function states(top: Float64Array, bottom: Float64Array, cutoff: number): Uint8Array {
  const found = new Uint8Array(top.length);
  for (let k = 0; k < found.length; k++) {
    const [highest, lowest] = [top[k]!, bottom[k]!];
    if (!Number.isFinite(highest) || !Number.isFinite(lowest)) found[k] = BROKEN;
    else if (highest <= cutoff) found[k] = DEAD;
    else if (lowest > cutoff) found[k] = LINEAR;
  }
  return found;
}

function tally(states: Uint8Array): Tally {
  const count = [0, 0, 0, 0];
  for (const state of states) count[state]!++;
  return { nonlinear: count[NONLINEAR]!, dead: count[DEAD]!, linear: count[LINEAR]!, broken: count[BROKEN]! };
}
