// The colours of the page as its style says them, for what is drawn on a canvas.

export interface Colours {
  readonly ink: string;
  readonly soft: string;
  readonly line: string;
  readonly card: string;
  readonly alive: string;
  readonly linear: string;
  readonly dead: string;
  readonly broken: string;
  readonly mark: string;
  readonly zero: string;
  readonly one: string;
  readonly points: string;
  readonly off: string;
  readonly cross: string;
  readonly slash: string;
  readonly deaths: string;
}

const NAMES = [
  "ink",
  "soft",
  "line",
  "card",
  "alive",
  "linear",
  "dead",
  "broken",
  "mark",
  "zero",
  "one",
  "points",
  "off",
  "cross",
  "slash",
  "deaths",
] as const;

export function colours(): Colours {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(
    NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  ) as unknown as Colours;
}

export function rgb(hex: string): [number, number, number] {
  const number = parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}
