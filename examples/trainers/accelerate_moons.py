"""A deep thin network on MOONS in a loop of one's own with Accelerate; its state is saved and loaded again.

Run it: python examples/trainers/accelerate_moons.py
"""

import tempfile

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import alive
from alive.data import moons
from alive.integrations.accelerate import keeping
from alive.nn import Rectangular

data = moons()
accelerator = Accelerator(cpu=True)
model = Rectangular(2, 1, depth=20, width=4, generator=torch.Generator().manual_seed(0))
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(data.train_x, data.train_y), batch_size=85)
model, optimiser, loader = accelerator.prepare(model, optimiser, loader)

with keeping(accelerator, model, weight="auto") as keep, tempfile.TemporaryDirectory() as folder:
    for _ in range(20):
        for x, y in loader:
            task = torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y.float())
            penalty = keep.penalty()
            accelerator.backward(task + penalty)
            optimiser.step()
            optimiser.zero_grad()
    accelerator.save_state(folder)
    accelerator.load_state(folder)
found = alive.census(model, data.train_x)
print(f"penalty {penalty.item():.3f}")
print(f"{found.units.dead} of {found.units.total} units are dead, {found.points.dead} points")
