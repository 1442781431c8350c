// One-sided activations, and where each stops passing a signal (alive.functional.activations).

export interface Activation {
  readonly label: string;
  readonly torch: string; // as a module of torch
  readonly cutoff: number; // at or below it nothing passes, or less than a slope of 0.1
  value(z: number): number;
  slope(z: number): number;
}

const TOLERANCE = 0.1;
const sigmoid = (z: number): number => 1 / (1 + Math.exp(-z));

/** Φ, the distribution function of a normal number, to the last digits: a series of positive terms, then a fraction. */
export function normal(z: number): number {
  const x = Math.abs(z);
  const density = Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
  let above: number; // 1 − Φ(x)
  if (x < 4) {
    let term = x;
    let sum = x;
    for (let k = 3; term > sum * 1e-17; k += 2) sum += term *= (x * x) / k;
    above = 0.5 - density * sum;
  } else {
    let fraction = x;
    for (let k = 60; k > 0; k--) fraction = x + k / fraction;
    above = density / fraction;
  }
  return z > 0 ? 1 - above : above;
}

export const ACTIVATIONS = {
  relu: {
    label: "ReLU",
    torch: "nn.ReLU()",
    cutoff: 0,
    value: (z) => (z > 0 ? z : 0),
    slope: (z) => (z > 0 ? 1 : 0),
  },
  "leaky-relu": {
    label: "Leaky ReLU",
    torch: "nn.LeakyReLU()",
    cutoff: 0,
    value: (z) => (z > 0 ? z : 0.01 * z),
    slope: (z) => (z > 0 ? 1 : 0.01),
  },
  elu: {
    label: "ELU",
    torch: "nn.ELU()",
    cutoff: Math.log(TOLERANCE),
    value: (z) => (z > 0 ? z : Math.expm1(z)),
    slope: (z) => (z > 0 ? 1 : Math.exp(z)),
  },
  gelu: {
    label: "GELU",
    torch: "nn.GELU()",
    cutoff: 0,
    value: (z) => z * normal(z),
    slope: (z) => normal(z) + (z * Math.exp((-z * z) / 2)) / Math.sqrt(2 * Math.PI),
  },
  silu: {
    label: "SiLU",
    torch: "nn.SiLU()",
    cutoff: 0,
    value: (z) => z * sigmoid(z),
    slope: (z) => sigmoid(z) * (1 + z * (1 - sigmoid(z))),
  },
  softplus: {
    label: "Softplus",
    torch: "nn.Softplus()",
    cutoff: Math.log(TOLERANCE / (1 - TOLERANCE)),
    value: (z) => (z > 20 ? z : Math.log1p(Math.exp(z))),
    slope: (z) => (z > 20 ? 1 : sigmoid(z)),
  },
} as const satisfies Record<string, Activation>;
