// The controls: settings, and what the buttons do.

import { architecture, type Cure, CURES, misfits, OPENING, pasted, PRESETS, read, type Settings, SHARED, type State } from "../engine";
import { $, field, form, say } from "./dom";
import { here, LETTERS } from "./here";
import { restart, tell, XOR } from "./session";

export function options(name: string, known: Record<string, string>): void {
  field(name).append(...Object.entries(known).map(([value, text]) => new Option(text, value)));
}

/** Show the settings of the network that is edited. */
export function fill(): void {
  const settings = here.state.nets[here.edited] ?? here.state.nets[0];
  for (const [name, value] of Object.entries(settings)) {
    field(name).value = String(value);
    field(name).removeAttribute("aria-invalid");
  }
  showCures(settings);
  for (const range of form.querySelectorAll<HTMLInputElement>("[data-for]"))
    range.value = String(settings[range.dataset["for"] as "depth"]);
  $("own").hidden = settings.data !== "own";
  $("which").hidden = here.state.nets.length < 2;
  for (const radio of form.querySelectorAll<HTMLInputElement>("[name=which]"))
    radio.checked = radio.value === String(here.edited);
  $("cured").textContent = here.state.nets.length > 1 ? `Cure ${LETTERS[here.edited]}` : "Cure";
  $("compare").setAttribute("aria-pressed", String(here.state.nets.length > 1));
  $("sentence").hidden = !here.preset;
  $("sentence").textContent = [OPENING, ...PRESETS].find(({ name }) => name === here.preset)?.sentence ?? "";
  for (const button of document.querySelectorAll<HTMLElement>("#presets button"))
    button.setAttribute("aria-pressed", String(button.dataset["name"] === here.preset));
}

/** Where a cure was given on the way, show what is in force, and since when. */
function showCures({ method }: Settings): void {
  const given = (here.frame?.doses ?? []).filter(({ net }) => net === (here.state.nets.length > 1 ? here.edited : 0));
  for (const { how } of given) {
    if (how === "mirrored") field("start").value = "mirrored";
    else if (architecture(method) === "plain") field("method").value = "sep-up";
  }
  $("cures").hidden = !given.length;
  $("cures").textContent = given.map(({ how, epoch }) => `${CURES[how]} since epoch ${epoch}`).join("; ");
}

/** Take what was entered, or say what is wrong with it and leave the network as it is. */
export function change(name: keyof Settings, text: string): void {
  const found = read(name, text);
  const input = field(name);
  input.toggleAttribute("aria-invalid", false);
  if ("fault" in found) {
    input.setAttribute("aria-invalid", "true");
    return say([found.fault]);
  }
  const nets = here.state.nets.map((settings, k) =>
    k === here.edited || SHARED.includes(name) ? { ...settings, [name]: found.value } : settings,
  );
  const isOwn = nets[0]!.data === "own";
  const own = isOwn && !here.state.own.length ? XOR : here.state.own;
  const wrong = [...new Set(nets.flatMap((settings) => misfits(settings, isOwn ? own.length : 85)))];
  if (wrong.length && own.length) {
    input.setAttribute("aria-invalid", "true");
    return say(wrong);
  }
  here.preset = "";
  restart(nets as unknown as State["nets"], own);
}

export function compare(): void {
  here.preset = "";
  here.edited = here.state.nets.length > 1 ? 0 : 1;
  const [a] = here.state.nets;
  restart(here.state.nets.length > 1 ? [a] : [a, { ...a, method: a.method === "sep-up" ? "none" : "sep-up" }]);
}

export function play(isOn = !here.frame?.isRunning): void {
  if (!here.isEmpty) tell({ type: "run", isOn, pace: Number($<HTMLSelectElement>("pace").value) });
}

export function cure(how: Cure): void {
  if (!$<HTMLButtonElement>(`cure-${how}`).disabled)
    tell({ type: "cure", net: here.state.nets.length > 1 ? here.edited : 0, how });
}

export function usePasted(): void {
  const { points, faults } = pasted($<HTMLTextAreaElement>("pasted").value);
  if (!faults.length && !points.length)
    faults.push("There is nothing to use: write a line for each point, such as 0.2, -0.5, 1.");
  if (faults.length) return say(faults);
  restart(here.state.nets, points);
}
