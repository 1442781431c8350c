// Products of matrices that lie flat, rows of N numbers each.
// They take four rows at a time: a number that was read is used four times before the next is read.

/** z = W h + b */
export function linear(
  W: Float64Array,
  b: Float64Array,
  h: Float64Array,
  z: Float64Array,
  rows: number,
  columns: number,
  count: number,
): void {
  for (let j = 0; j < rows; j++) combine(W, j * columns, 1, h, z, j * count, columns, count, b[j]!);
}

/** out = Wᵀ g */
export function transposed(
  W: Float64Array,
  g: Float64Array,
  out: Float64Array,
  rows: number,
  columns: number,
  count: number,
): void {
  for (let i = 0; i < columns; i++) combine(W, i, columns, g, out, i * count, rows, count, 0);
}

/** One row of `out`: a sum of `terms` rows of `h`, with weights from W[first] on, every `stride`, and a constant. */
function combine(
  W: Float64Array,
  first: number,
  stride: number,
  h: Float64Array,
  out: Float64Array,
  at: number,
  terms: number,
  count: number,
  constant: number,
): void {
  const w = (i: number): number => (i < terms ? W[first + i * stride]! : 0);
  const row = (i: number): number => (i < terms ? i : 0) * count;
  for (let i = 0; i < terms; i += 4) {
    const [w0, w1, w2, w3] = [w(i), w(i + 1), w(i + 2), w(i + 3)];
    const [r0, r1, r2, r3] = [row(i), row(i + 1), row(i + 2), row(i + 3)];
    const left = terms - i;
    if (i === 0)
      if (left > 3)
        for (let n = 0; n < count; n++)
          out[at + n] = w0 * h[r0 + n]! + w1 * h[r1 + n]! + w2 * h[r2 + n]! + w3 * h[r3 + n]!;
      else if (left > 2)
        for (let n = 0; n < count; n++) out[at + n] = w0 * h[r0 + n]! + w1 * h[r1 + n]! + w2 * h[r2 + n]!;
      else if (left > 1) for (let n = 0; n < count; n++) out[at + n] = w0 * h[r0 + n]! + w1 * h[r1 + n]!;
      else for (let n = 0; n < count; n++) out[at + n] = w0 * h[r0 + n]!;
    else if (left > 3)
      for (let n = 0; n < count; n++)
        out[at + n]! += w0 * h[r0 + n]! + w1 * h[r1 + n]! + w2 * h[r2 + n]! + w3 * h[r3 + n]!;
    else if (left > 2)
      for (let n = 0; n < count; n++) out[at + n]! += w0 * h[r0 + n]! + w1 * h[r1 + n]! + w2 * h[r2 + n]!;
    else if (left > 1) for (let n = 0; n < count; n++) out[at + n]! += w0 * h[r0 + n]! + w1 * h[r1 + n]!;
    else for (let n = 0; n < count; n++) out[at + n]! += w0 * h[r0 + n]!;
  }
  if (constant) for (let n = 0; n < count; n++) out[at + n]! += constant;
}

/** ∂/∂W = g hᵀ, ∂/∂b = Σ g */
export function slopesOf(
  dW: Float64Array,
  db: Float64Array,
  g: Float64Array,
  h: Float64Array,
  rows: number,
  columns: number,
  count: number,
): void {
  for (let j = 0; j < rows; j++) {
    const at = j * count;
    let total = 0;
    for (let n = 0; n < count; n++) total += g[at + n]!;
    db[j] = total;
    for (let i = 0; i < columns; i += 4) {
      const last = columns - 1;
      const [i1, i2, i3] = [Math.min(i + 1, last), Math.min(i + 2, last), Math.min(i + 3, last)];
      const [r0, r1, r2, r3] = [i * count, i1 * count, i2 * count, i3 * count];
      let [s0, s1, s2, s3] = [0, 0, 0, 0];
      for (let n = 0; n < count; n++) {
        const slope = g[at + n]!;
        s0 += slope * h[r0 + n]!;
        s1 += slope * h[r1 + n]!;
        s2 += slope * h[r2 + n]!;
        s3 += slope * h[r3 + n]!;
      }
      const into = j * columns;
      [dW[into + i], dW[into + i1], dW[into + i2], dW[into + i3]] = [s0, s1, s2, s3];
    }
  }
}

export function add(from: Float64Array, to: Float64Array): void {
  for (let k = 0; k < to.length; k++) to[k]! += from[k]!;
}
