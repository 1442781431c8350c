// The elements of the page, and how text gets into them.

import type { Lines } from "./words";

export const $ = <E extends HTMLElement = HTMLElement>(id: string): E => document.getElementById(id) as E;
export const form = $<HTMLFormElement>("form");
export const field = (name: string): HTMLInputElement | HTMLSelectElement =>
  form.elements.namedItem(name) as HTMLInputElement;

export function say(sentences: readonly string[]): void {
  $("faults").replaceChildren(
    ...sentences.slice(0, 6).map((text) => Object.assign(document.createElement("p"), { textContent: text })),
  );
}

/** Write headings and sentences, only where they differ: a screen reader reads what changes. */
export function put(where: HTMLElement, lines: readonly Lines[]): void {
  const text = JSON.stringify(lines);
  if (where.dataset["text"] === text) return;
  where.dataset["text"] = text;
  const part = (name: string, text: string): HTMLElement[] =>
    text ? [Object.assign(document.createElement(name), { textContent: text })] : [];
  where.replaceChildren(...lines.flatMap(({ title, body }) => [...part("h3", title), ...part("p", body)]));
}

/** Write markup, only where it differs. */
export function mark(where: Element, markup: string): void {
  if (marked.get(where) === markup) return;
  marked.set(where, markup);
  where.innerHTML = markup;
}

const marked = new WeakMap<Element, string>();
