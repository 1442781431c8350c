// "Copy as PyTorch": the code with alive that does what the page does, number for number.

import { ACTIVATIONS } from "./activations";
import type { Dose, State } from "./link";
import { axes, type Point, type Settings } from "./settings";

export function pytorch(state: State, net: 0 | 1): string {
  const settings = state.nets[net] ?? state.nets[0];
  const doses = state.doses.filter((dose) => dose.net === net);
  return [
    imports(settings, doses),
    "torch.set_default_dtype(torch.float64)  # as the page computes",
    data(settings, state.own),
    "",
    model(settings),
    `optimiser = ${optimiser(settings)}`,
    "",
    TRAIN,
    ...training(settings, doses, state.epoch),
    REPORT,
    "",
  ].join("\n");
}

function imports(settings: Settings, doses: readonly Dose[]): string {
  const isMirrored = doses.some((dose) => dose.how === "mirrored");
  const rest = [
    settings.data === "moons" ? "from alive.data import moons" : "",
    `from alive.nn import Rectangular${isMirrored ? ", initialise_" : ""}`,
    settings.method === "skip" ? "from alive_papers.networks.skips import Residual" : "",
    settings.method === "farkas" ? "from alive.surgery import to_farkas" : "",
  ];
  return ["import alive", "import torch", ...rest.filter(Boolean), "from torch import nn", ""].join("\n");
}

const SPLIT = [
  "trained = torch.arange(len(labels)) % 7 != 3  # the others are for testing",
  "x, y = points[trained], labels[trained].double()",
];

function data({ data: name, seed }: Settings, own: readonly Point[]): string {
  const lines = {
    moons: () => ["data = moons()", "x, y = data.train_x, data.train_y.double()"],
    circles: () => [
      "k = torch.arange(140)",
      "labels, radius, angle = k % 2, torch.where(k % 2 == 1, 0.35, 0.9), 2 * torch.pi * k / 140",
      "points = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)",
      ...SPLIT,
    ],
    spirals: () => [
      "k = torch.arange(210)",
      "labels, turn = k % 2, 0.15 + 0.85 * k / 209",
      "angle = 3 * torch.pi * turn + torch.pi * labels",
      "points = torch.stack([turn * angle.cos(), turn * angle.sin()], 1)",
      ...SPLIT,
    ],
    checkerboard: () => [
      `points = 2 * torch.rand(210, 2, generator=torch.Generator().manual_seed(${seed})) - 1`,
      "labels = (2 * points).floor().sum(1) % 2",
      ...SPLIT,
    ],
    own: () => [
      `points = torch.tensor([${own.map((point) => `[${point.join(", ")}]`).join(", ")}])`,
      "x, y = points[:, :2].double(), points[:, 2].double()",
    ],
  };
  return lines[name]().join("\n");
}

function model(settings: Settings): string {
  const { depth, width, method, start, activation, seed } = settings;
  const norm = method === "batch-norm" ? ", batch_norm=True" : "";
  const lines = [
    `chance = torch.Generator().manual_seed(${seed})`,
    `model = Rectangular(2, 1, depth=${depth}, width=${width}${norm}, init="${start}", generator=chance)`,
  ];
  const { torch } = ACTIVATIONS[activation];
  if (activation !== "relu") lines.push("for layer in model.hidden:", `    layer.relu = ${torch}`);
  if (method === "skip")
    lines.push(
      "first, *others = [layer.linear for layer in model.hidden]  # each layer adds to what the one before summed up",
      `blocks = [Residual(nn.Sequential(${torch}, linear)) for linear in others]`,
      `model = nn.Sequential(first, *blocks, ${torch}, model.output)`,
    );
  if (method === "farkas")
    lines.push("model = to_farkas(model, x).model  # in every layer some unit is on, whatever the input");
  return lines.join("\n");
}

function optimiser({ optimiser: name, rate }: Settings): string {
  if (name === "adam") return `torch.optim.Adam(model.parameters(), lr=${rate})`;
  return `torch.optim.SGD(model.parameters(), lr=${rate}${name === "momentum" ? ", momentum=0.9" : ""})`;
}

const TRAIN = `def train(epochs, keep=None):
    model.train()
    for _ in range(epochs):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y)
        if keep:
            loss = loss + keep.penalty()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

`;

const REPORT = `print(alive.census(model, x))
with torch.no_grad():
    right = (model.eval()(x)[:, 0] > 0) == (y > 0)
print(f"training accuracy {right.double().mean():.3f}")`;

/** The training in stretches: a cure begins the next one. */
function training(settings: Settings, doses: readonly Dose[], epochs: number): string[] {
  const lines: string[] = [];
  let mode = axes(settings.method);
  let at = 0;
  const stretch = (until: number): void => {
    if (until <= at) return;
    if (mode)
      lines.push(
        `with alive.Jumpstart(model, weight=${settings.weight}, mode="${mode}", aggregate="meansq") as keep:`,
        `    train(${until - at}, keep)`,
      );
    else lines.push(`train(${until - at})`);
    at = until;
  };
  for (const { epoch, how } of doses) {
    stretch(epoch);
    if (how === "sep-up") mode = "UP";
    else
      lines.push(
        `initialise_(model, "mirrored", generator=torch.Generator().manual_seed(${settings.seed}))`,
        `optimiser = ${optimiser(settings)}`,
      );
  }
  stretch(epochs);
  return lines;
}
