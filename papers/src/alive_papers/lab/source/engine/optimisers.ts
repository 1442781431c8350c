// torch.optim.Adam and SGD with their defaults, over one flat vector.

import type { Optimiser } from "./settings";

export type Step = (parameters: Float64Array, slopes: Float64Array) => void;

export function optimiser(name: Optimiser, rate: number, size: number): Step {
  return name === "adam" ? adam(rate, size) : sgd(rate, name === "momentum" ? 0.9 : 0, size);
}

function adam(rate: number, size: number): Step {
  const [beta1, beta2, eps] = [0.9, 0.999, 1e-8];
  const first = new Float64Array(size);
  const second = new Float64Array(size);
  let steps = 0;
  return (parameters, slopes) => {
    steps++;
    const pace = rate / (1 - beta1 ** steps);
    const root = Math.sqrt(1 - beta2 ** steps);
    for (let k = 0; k < size; k++) {
      const g = slopes[k]!;
      const m = (first[k]! += (g - first[k]!) * (1 - beta1));
      const v = (second[k] = second[k]! * beta2 + g * g * (1 - beta2));
      parameters[k]! -= (pace * m) / (Math.sqrt(v) / root + eps);
    }
  };
}

function sgd(rate: number, momentum: number, size: number): Step {
  const speed = new Float64Array(size);
  return (parameters, slopes) => {
    for (let k = 0; k < size; k++) parameters[k]! -= rate * (speed[k] = momentum * speed[k]! + slopes[k]!);
  };
}
