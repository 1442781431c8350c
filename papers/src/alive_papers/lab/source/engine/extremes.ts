// The largest and smallest pre-activation of every unit and every point: what penalty and census ask of a layer.

import type { Pass } from "./network";

export class Extremes {
  readonly unitTop: Float64Array; // [L, C]
  readonly unitBottom: Float64Array;
  readonly pointTop: Float64Array; // [L, N]
  readonly pointBottom: Float64Array;

  constructor(
    readonly layers: number,
    readonly units: number,
    readonly count: number,
  ) {
    this.unitTop = new Float64Array(layers * units);
    this.unitBottom = new Float64Array(layers * units);
    this.pointTop = new Float64Array(layers * count);
    this.pointBottom = new Float64Array(layers * count);
  }

  /** Measure a pass. A number that is not finite shows as NaN, in its unit and in its point. */
  take(pass: Pass): void {
    const { layers, units, count, unitTop, unitBottom, pointTop, pointBottom } = this;
    pointTop.fill(-Infinity);
    pointBottom.fill(Infinity);
    for (let k = 0; k < layers; k++) {
      const z = pass.z[k]!;
      const p = k * count;
      for (let j = 0; j < units; j++) {
        let top = -Infinity;
        let bottom = Infinity;
        for (let n = 0; n < count; n++) {
          const each = z[j * count + n]!;
          if (!(each - each === 0)) {
            pointTop[p + n] = pointBottom[p + n] = top = bottom = NaN;
            continue;
          }
          if (!(each <= top)) top = top === top ? each : top;
          if (!(each >= bottom)) bottom = bottom === bottom ? each : bottom;
          if (each > pointTop[p + n]!) pointTop[p + n] = each;
          if (each < pointBottom[p + n]!) pointBottom[p + n] = each;
        }
        unitTop[k * units + j] = top;
        unitBottom[k * units + j] = bottom;
      }
    }
  }
}
