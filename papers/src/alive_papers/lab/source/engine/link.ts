// The state of the page as the part of its address behind #, so that a picture can be shared.

import { MOST_POINTS, pasted } from "./data";
import { clip, CURES, type Cure, DEFAULTS, misfits, type Point, read, type Settings } from "./settings";

/** A cure that was given to a network on its way. */
export interface Dose {
  readonly net: 0 | 1;
  readonly epoch: number;
  readonly how: Cure;
}

export interface State {
  readonly nets: readonly [Settings] | readonly [Settings, Settings];
  readonly own: readonly Point[];
  readonly epoch: number;
  readonly doses: readonly Dose[];
}

export const MOST_EPOCHS = 100000;
export const SHARED: readonly (keyof Settings)[] = ["data", "seed"]; // the same for both networks
const NAMES = Object.keys(DEFAULTS) as (keyof Settings)[];

export function write({ nets, own, epoch, doses }: State): string {
  const [a, b] = nets;
  const parts = NAMES.map((name) => `${name}=${a[name]}`);
  if (b) parts.push("compare=1", ...NAMES.filter((name) => a[name] !== b[name]).map((name) => `b.${name}=${b[name]}`));
  if (own.length) parts.push(`points=${own.map((point) => point.join(",")).join(";")}`);
  parts.push(...doses.map(({ net, epoch: at, how }) => `${net ? "b." : ""}cure=${at}:${how}`));
  parts.push(`epoch=${epoch}`);
  return parts.join("&");
}

/** The state that an address asks for; what it asks for in vain is left as it is by default, and said in sentences. */
export function readLink(hash: string): { state: State; faults: string[] } {
  const faults: string[] = [];
  const nets: [Settings, Settings] = [{ ...DEFAULTS }, { ...DEFAULTS }];
  const own: Point[] = [];
  const doses: Dose[] = [];
  const second: [keyof Settings, string][] = [];
  let epoch = 0;
  let isTwo = false;

  const take = (settings: Settings, name: keyof Settings, text: string): void => {
    const found = read(name, text);
    if ("fault" in found) faults.push(found.fault);
    else Object.assign(settings, { [name]: found.value });
  };
  const dose = (net: 0 | 1, text: string): void => {
    const [at = "", how = ""] = text.split(":");
    if (isEpoch(at) && Object.hasOwn(CURES, how)) doses.push({ net, epoch: Number(at), how: how as Cure });
    else faults.push(`“${clip(text)}” is no cure; write an epoch and sep-up or mirrored, such as 100:sep-up.`);
  };
  for (const [key, text] of parts(hash, faults)) {
    const name = key.replace(/^b\./, "") as keyof Settings;
    const isSecond = key !== name;
    if (NAMES.includes(name)) isSecond ? second.push([name, text]) : take(nets[0], name, text);
    else if (name === ("cure" as string)) dose(isSecond ? 1 : 0, text);
    else if (key === "compare") isTwo = text === "1";
    else if (key === "epoch")
      isEpoch(text)
        ? (epoch = Number(text))
        : faults.push(`The epoch is a whole number from 0 to ${MOST_EPOCHS}, not “${clip(text)}”.`);
    else if (key === "points") {
      const found = pasted(text.replace(/;/g, "\n"));
      faults.push(...found.faults);
      own.push(...found.points.slice(0, MOST_POINTS));
    } else faults.push(`The address has a part that means nothing here: “${clip(key)}”.`);
  }
  Object.assign(nets[1], nets[0]);
  for (const [name, text] of second)
    if (SHARED.includes(name)) faults.push(`Both networks have the same ${name}.`);
    else take(nets[1], name, text);
  for (const settings of isTwo ? nets : nets.slice(0, 1)) {
    const wrong = misfits(settings, settings.data === "own" ? own.length : 85).filter((each) => !faults.includes(each));
    if (settings.data === "own" && own.length < 1) continue; // an empty map is where one begins to click
    if (wrong.length)
      Object.assign(settings, {
        width: Math.max(2, settings.width),
        method: own.length === 1 ? "none" : settings.method,
      });
    faults.push(...wrong);
  }
  const given = doses
    .filter((each) => (isTwo || !each.net) && each.epoch <= epoch)
    .sort((one, two) => one.epoch - two.epoch);
  return { state: { nets: isTwo ? nets : [nets[0]], own, epoch, doses: given }, faults };
}

function isEpoch(text: string): boolean {
  return /^\d{1,6}$/.test(text) && Number(text) <= MOST_EPOCHS;
}

function parts(hash: string, faults: string[]): [string, string][] {
  return hash
    .replace(/^#/, "")
    .split("&")
    .filter(Boolean)
    .map((part) => {
      const [key = "", ...rest] = part.split("=");
      return [decoded(key, faults), decoded(rest.join("="), faults)];
    });
}

function decoded(text: string, faults: string[]): string {
  try {
    return decodeURIComponent(text);
  } catch {
    faults.push(`The address has a part that cannot be read: “${clip(text)}”.`);
    return text;
  }
}
