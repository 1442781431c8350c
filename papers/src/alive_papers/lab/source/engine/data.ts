// The points to learn from, all by formulas that `code.ts` repeats in Python.

import { Chance } from "./chance";
import { clip, type Point, type Settings } from "./settings";

export interface Points {
  readonly count: number;
  readonly x: Float64Array; // [2, N]
  readonly y: Float64Array; // [N], 0 or 1
}

export interface Data {
  readonly train: Points;
  readonly test: Points;
}

/** As alive.data.moons() splits them: the numbers of the points, 85 to train on and 15 to test. */
const MOONS = [
  66, 69, 77, 60, 34, 10, 36, 21, 83, 65, 74, 32, 28, 68, 30, 1, 67, 54, 6, 29, 3, 88, 27, 39, 92, 7, 35, 41, 89, 61,
  46, 78, 55, 91, 53, 76, 37, 26, 5, 38, 85, 79, 18, 45, 40, 96, 9, 24, 58, 87, 57, 17, 31, 22, 64, 51, 20, 56, 81, 15,
  86, 13, 84, 93, 71, 94, 62, 4, 63, 14, 98, 70, 43, 44, 16, 73, 25, 11, 72, 90, 23, 82, 95, 8, 97, 33, 99, 12, 80, 47,
  48, 50, 49, 2, 19, 59, 42, 75, 52, 0,
];
export const MOONS_TRAINED = 85;
export const MOST_POINTS = 500;

/** Every seventh point is for testing. */
export const TEST_EVERY = 7;

export function load(settings: Pick<Settings, "data" | "seed">, own: readonly Point[] = []): Data {
  switch (settings.data) {
    case "moons":
      return {
        train: points(MOONS.slice(0, MOONS_TRAINED).map(moon)),
        test: points(MOONS.slice(MOONS_TRAINED).map(moon)),
      };
    case "circles":
      return split(Array.from({ length: 140 }, (_, k) => circle(k)));
    case "spirals":
      return split(Array.from({ length: 210 }, (_, k) => spiral(k)));
    case "checkerboard":
      return split(checkerboard(210, settings.seed));
    case "own":
      return { train: points(own), test: points([]) };
  }
}

function moon(k: number): Point {
  const angle = (Math.PI * (k % 50)) / 49;
  const [x, y]: [number, number] =
    k < 50 ? [Math.cos(angle), Math.sin(angle)] : [1 - Math.cos(angle), 1 - Math.sin(angle) - 0.5];
  return [x / 3, y / 3, k < 50 ? 0 : 1];
}

function circle(k: number): Point {
  const angle = (2 * Math.PI * k) / 140;
  const radius = k % 2 ? 0.35 : 0.9;
  return [radius * Math.cos(angle), radius * Math.sin(angle), (k % 2) as 0 | 1];
}

function spiral(k: number): Point {
  const turn = 0.15 + (0.85 * k) / 209;
  const angle = 3 * Math.PI * turn + Math.PI * (k % 2);
  return [turn * Math.cos(angle), turn * Math.sin(angle), (k % 2) as 0 | 1];
}

function checkerboard(count: number, seed: number): Point[] {
  const chance = new Chance(seed);
  return Array.from({ length: count }, () => {
    const x = 2 * chance.unit() - 1;
    const y = 2 * chance.unit() - 1;
    return [x, y, Math.abs((Math.floor(2 * x) + Math.floor(2 * y)) % 2) as 0 | 1];
  });
}

function split(all: readonly Point[]): Data {
  const tested = (_: Point, k: number): boolean => k % TEST_EVERY === 3;
  return { train: points(all.filter((p, k) => !tested(p, k))), test: points(all.filter(tested)) };
}

export function points(list: readonly Point[]): Points {
  const count = list.length;
  const x = new Float64Array(2 * count);
  const y = new Float64Array(count);
  list.forEach(([first, second, label], k) => {
    x[k] = first;
    x[count + k] = second;
    y[k] = label;
  });
  return { count, x, y };
}

/** Points from text, a line each: x, y and the class 0 or 1. Either all of them, or the sentences that say why not. */
export function pasted(text: string): { points: Point[]; faults: string[] } {
  const found: Point[] = [];
  const faults: string[] = [];
  text.split(/\r?\n/).forEach((line, k) => {
    if (!line.trim()) return;
    const words = line
      .trim()
      .split(/[\s,;]+/)
      .filter(Boolean);
    const [x, y, label] = words.map(Number);
    const finite = words.length === 3 && [x, y].every((each) => Number.isFinite(each) && Math.abs(each!) <= 1000);
    if (finite && (label === 0 || label === 1)) found.push([x!, y!, label]);
    else if (faults.length < 3)
      faults.push(
        `Line ${k + 1}, “${clip(line.trim())}”, is no point: write x, y and the class 0 or 1, such as “0.2, −0.5, 1”, within ±1000.`.replace(
          "−",
          "-",
        ),
      );
  });
  if (found.length > MOST_POINTS) faults.push(`There are ${found.length} points; at most ${MOST_POINTS} fit.`);
  return { points: found, faults };
}
