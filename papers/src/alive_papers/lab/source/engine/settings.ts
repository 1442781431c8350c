// What decides a network and its training. One record a network; a faulty one is said to be so in sentences.

import { ACTIVATIONS } from "./activations";

export type Point = readonly [x: number, y: number, label: 0 | 1];

export const DATA = {
  moons: "Moons",
  circles: "Circles",
  spirals: "Spirals",
  checkerboard: "Checkerboard",
  own: "My own points",
} as const;
export const STARTS = {
  glorot: "Glorot",
  kaiming: "Kaiming",
  torch: "PyTorch",
  zeros: "Zeros",
  mirrored: "Mirrored",
} as const;
export const METHODS = {
  none: "None",
  "batch-norm": "Batch norm",
  skip: "Skip connections",
  "sep-u": "Sep-U: keep units",
  "sep-p": "Sep-P: keep points",
  "sep-up": "Sep-UP: keep both",
  farkas: "Farkas layers",
} as const;
export const OPTIMISERS = { adam: "Adam", sgd: "SGD", momentum: "SGD, momentum 0.9" } as const;
export const CURES = { "sep-up": "Sep-UP", mirrored: "mirrored start" } as const;
export const ACTIVATION_NAMES = Object.fromEntries(
  Object.entries(ACTIVATIONS).map(([name, each]) => [name, each.label]),
) as Record<keyof typeof ACTIVATIONS, string>;

export type Start = keyof typeof STARTS;
export type Method = keyof typeof METHODS;
export type Optimiser = keyof typeof OPTIMISERS;
export type Cure = keyof typeof CURES;

export interface Settings {
  data: keyof typeof DATA;
  depth: number;
  width: number;
  activation: keyof typeof ACTIVATIONS;
  start: Start;
  method: Method;
  rate: number;
  weight: number;
  optimiser: Optimiser;
  seed: number;
}

export const DEFAULTS: Readonly<Settings> = {
  data: "moons",
  depth: 50,
  width: 4,
  activation: "relu",
  start: "glorot",
  method: "none",
  rate: 0.01,
  weight: 1,
  optimiser: "adam",
  seed: 10,
};

const CHOICES: Partial<Record<keyof Settings, Readonly<Record<string, string>>>> = {
  data: DATA,
  activation: ACTIVATION_NAMES,
  start: STARTS,
  method: METHODS,
  optimiser: OPTIMISERS,
};

interface Bounds {
  readonly low: number;
  readonly high: number;
  readonly whole: boolean;
  readonly said: string;
}

export const BOUNDS: Readonly<Record<"depth" | "width" | "rate" | "weight" | "seed", Bounds>> = {
  depth: { low: 1, high: 200, whole: true, said: "Depth is a whole number of layers from 1 to 200" },
  width: { low: 1, high: 32, whole: true, said: "Width is a whole number of units from 1 to 32" },
  rate: { low: 1e-9, high: 100, whole: false, said: "The rate is a number above 0, at most 100" },
  weight: { low: 0, high: 1e6, whole: false, said: "The weight of the penalty is a number from 0 to 1,000,000" },
  seed: { low: 0, high: 4294967295, whole: true, said: "The seed is a whole number from 0 to 4294967295" },
};

/** One setting from text: its value, or the sentence that says what is wrong with it. */
export function read(name: keyof Settings, text: string): { value: Settings[keyof Settings] } | { fault: string } {
  const known = CHOICES[name];
  if (known) {
    if (Object.hasOwn(known, text)) return { value: text as Settings[keyof Settings] };
    return { fault: `There is no ${name} “${clip(text)}”; choose one of ${Object.keys(known).join(", ")}.` };
  }
  const bounds = BOUNDS[name as keyof typeof BOUNDS];
  const value = text.trim() === "" ? NaN : Number(text);
  const fits = value >= bounds.low && value <= bounds.high && (!bounds.whole || Number.isInteger(value));
  return fits ? { value } : { fault: `${bounds.said}, not “${clip(text)}”.` };
}

export function clip(text: string): string {
  return text.length > 30 ? `${text.slice(0, 30)}…` : text;
}

/** What each setting allows, but not together. */
export function misfits(settings: Settings, points: number): string[] {
  const { width, start, method } = settings;
  const said: [boolean, string][] = [
    [
      start === "mirrored" && width < 2,
      "The mirrored start needs width 2 or more: one unit cannot carry both u and −u.",
    ],
    [method === "farkas" && width < 2, "Farkas layers need width 2 or more: one unit has no other to answer for."],
    [method === "batch-norm" && points < 2, "Batch norm needs two points or more: one has no spread."],
    [points < 1, "There are no points to learn from: click into the map, or paste some."],
  ];
  return said.flatMap(([wrong, sentence]) => (wrong ? [sentence] : []));
}

export type Architecture = "plain" | "norm" | "skip" | "farkas";

/** How the layers of a method are joined. */
export function architecture(method: Method): Architecture {
  const special: Partial<Record<Method, Architecture>> = { "batch-norm": "norm", skip: "skip", farkas: "farkas" };
  return special[method] ?? "plain";
}

/** The axes of a method's penalty: some of U and P. */
export function axes(method: Method): string {
  return method.startsWith("sep-") ? method.slice(4).toUpperCase() : "";
}
