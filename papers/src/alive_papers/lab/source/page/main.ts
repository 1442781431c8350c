// The page: what every button, key and field does, and the beginning.

import { ACTIVATION_NAMES, DATA, METHODS, OPENING, OPTIMISERS, PRESETS, pytorch, type Settings, STARTS } from "../engine";
import { colours } from "./colours";
import { change, compare, cure, fill, options, play, usePasted } from "./controls";
import { $, field, form, put } from "./dom";
import { draw } from "./draw";
import { here, letter, now } from "./here";
import { open, remember, restart, tell } from "./session";
import { HINT } from "./words";

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function wire(): void {
  for (const [name, known] of Object.entries({
    data: DATA,
    activation: ACTIVATION_NAMES,
    start: STARTS,
    method: METHODS,
    optimiser: OPTIMISERS,
  }))
    options(name, known);
  $("presets").append(
    ...PRESETS.map(({ name, title, sentence, link }) => {
      const button = Object.assign(document.createElement("button"), {
        type: "button",
        textContent: title,
        title: sentence,
      });
      button.dataset["name"] = name;
      button.addEventListener("click", () => {
        here.preset = name;
        open(link);
      });
      return button;
    }),
  );
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", ({ target }) => {
    const input = target as HTMLInputElement;
    if (input.name === "which") {
      here.edited = Number(input.value) as 0 | 1;
      fill();
      draw();
    } else if (input.dataset["for"]) change(input.dataset["for"] as keyof Settings, input.value);
    else if (input.name in here.state.nets[0]) change(input.name as keyof Settings, input.value);
  });
  form.addEventListener("input", ({ target }) => {
    const range = target as HTMLInputElement;
    if (range.dataset["for"]) field(range.dataset["for"]).value = range.value;
  });
  const clicks: Record<string, () => unknown> = {
    play: () => play(),
    step: () => tell({ type: "step" }),
    back: () => restart(),
    "cure-sep-up": () => cure("sep-up"),
    "cure-mirrored": () => cure("mirrored"),
    compare,
    reseed: () => change("seed", String((here.state.nets[0].seed + 1) % 4294967296)),
    undo: () => restart(here.state.nets, here.state.own.slice(0, -1)),
    clear: () => restart(here.state.nets, []),
    paste: usePasted,
    code: () => {
      $("python").textContent = pytorch(now(), here.state.nets.length > 1 ? here.edited : 0);
      $("of-which").textContent = `${letter(here.edited)}As PyTorch, with alive`;
      $("copied").textContent = "";
      $<HTMLDialogElement>("listing").showModal();
    },
    copy: async () => {
      const isDone = await copy($("python").textContent ?? "");
      $("copied").textContent = isDone ? "Copied." : "The browser did not let the page copy: select the text.";
      if (!isDone) getSelection()?.selectAllChildren($("python"));
    },
    close: () => $<HTMLDialogElement>("listing").close(),
    share: async () => {
      remember(true);
      const isDone = await copy(location.href);
      $("share").textContent = isDone ? "Link copied" : "See the address bar";
      setTimeout(() => ($("share").textContent = "Copy link"), 2000);
    },
  };
  for (const [id, act] of Object.entries(clicks)) $(id).addEventListener("click", act);
  $("pace").addEventListener("change", () => here.frame?.isRunning && play(true));
  document.addEventListener("keydown", (event) => {
    const at = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || at.closest("input, select, textarea, dialog, summary"))
      return;
    if (event.key === " " && at.closest("button")) return;
    const act = {
      " ": () => play(),
      s: clicks["step"]!,
      r: clicks["back"]!,
      c: clicks["cure-sep-up"]!,
      m: clicks["cure-mirrored"]!,
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  window.addEventListener("hashchange", () => {
    here.preset = "";
    open(location.hash);
  });
  const wide = matchMedia("(min-width: 70.01rem)");
  const arrange = (): void => void ($<HTMLDetailsElement>("settings").open = wide.matches);
  wide.addEventListener("change", arrange);
  $("settings")
    .querySelector("summary")!
    .addEventListener("click", (event) => wide.matches && event.preventDefault());
  arrange();
  const redraw = (): void => {
    here.colour = colours();
    draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(redraw).observe($("middle"));
}

put($("about"), [{ title: "", body: HINT }]);
wire();
if (location.hash) open(location.hash);
else {
  here.preset = OPENING.name;
  open(OPENING.link);
  play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
}
