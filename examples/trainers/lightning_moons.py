"""A deep thin network on MOONS, trained by Lightning and kept alive by one callback.

Run it: python examples/trainers/lightning_moons.py
"""

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

from alive.data import moons
from alive.integrations.lightning import AliveCallback
from alive.integrations.probe import Probe
from alive.nn import Rectangular


class Moons(pl.LightningModule):
    """What Lightning asks for: a network, a step, an optimiser."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Rectangular(2, 1, depth=20, width=4, generator=torch.Generator().manual_seed(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One logit a point."""
        return self.net(x)

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        """The loss, as ever; the callback adds the penalty."""
        x, y = batch
        return torch.nn.functional.binary_cross_entropy_with_logits(self(x)[:, 0], y.float())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


data = moons()
probe = Probe(data.train_x, every=5)
trainer = pl.Trainer(
    max_epochs=20,
    accelerator="cpu",
    callbacks=[AliveCallback(probe=probe)],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Moons(), DataLoader(TensorDataset(data.train_x, data.train_y), batch_size=85))
print(f"penalty {trainer.logged_metrics['alive/penalty']:.3f}")
print(f"{probe.last.units.dead} of {probe.last.units.total} units are dead, {probe.last.points.dead} points")
