// What the page knows at this moment: one record that all its parts read, and few write.

import { type Column, type Data, type Frame, load, type Place, readLink, type State, type View } from "../engine";
import { type Colours, colours } from "./colours";
import { viewOf } from "./map";

export const LETTERS = ["A", "B"] as const;

interface Here {
  state: State; // as it began
  data: Data;
  view: View;
  beginning: number; // the number of the latest
  frame: Frame | null; // the latest of that beginning
  history: Record<Column, number[]>[];
  maps: { values: Float32Array; size: number }[];
  edited: 0 | 1; // the network whose settings are shown
  chosen: Place | null;
  hovered: Place | null;
  latest: Place | null; // that was pointed at: what is said of it stays when the pointer leaves
  isEmpty: boolean; // there is nothing to train
  isDrawn: boolean;
  colour: Colours;
  linkFaults: string[];
  preset: string;
}

const { state } = readLink("");
const data = load(state.nets[0]);

export const here: Here = {
  state,
  data,
  view: viewOf(data, false),
  beginning: 0,
  frame: null,
  history: [],
  maps: [],
  edited: 0,
  chosen: null,
  hovered: null,
  latest: null,
  isEmpty: false,
  isDrawn: true,
  colour: colours(),
  linkFaults: [],
  preset: "",
};

/** The state as it is now: with the epoch that is shown, and the cures that were given. */
export function now(): State {
  return { ...here.state, epoch: here.frame?.epoch ?? 0, doses: here.frame?.doses ?? [] };
}

/** The name of a network, where there are two. */
export function letter(net: number): string {
  return here.state.nets.length > 1 ? `${LETTERS[net]}: ` : "";
}
