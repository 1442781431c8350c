"""Dead latents of a sparse autoencoder, with and without the penalty: `python examples/sparse_autoencoder.py`.

Points are sparse sums of 200 directions in 32 dimensions, each there with probability 0.02; 256 latents, L1 of 0.05,
Adam at 0.003, batches of 512 drawn anew. Prints dead latents over 20,000 new points, the share of the variance that is
not rebuilt, and how many latents are on a point: docs/howto/sparse-autoencoders.md has the numbers.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

import alive

KEEPING = {"mode": "U", "against": "death", "pos_margin": 0.1}


class Autoencoder(nn.Module):
    """One hidden layer, whose units are the latents."""

    def __init__(self, inputs: int = 32, latents: int = 256) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(inputs, latents), nn.Linear(latents, inputs)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What was rebuilt, and the code."""
        code = torch.relu(self.encoder(x))
        return self.decoder(code), code


def points(count: int, directions: Tensor, chance: torch.Generator) -> Tensor:
    """Sparse sums of the directions [N, d]."""
    chosen = torch.rand(count, len(directions), generator=chance) < 0.02
    return (chosen * torch.rand(chosen.shape, generator=chance)) @ directions


def trained(seed: int, steps: int, *, keeping: bool) -> tuple[int, float, float]:
    """Train one; returns dead latents, what is not rebuilt, and latents on a point."""
    torch.manual_seed(seed)
    chance = torch.Generator().manual_seed(seed)
    directions = nn.functional.normalize(torch.randn(200, 32, generator=chance))
    fresh = points(20_000, directions, chance)
    model = Autoencoder()
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    with alive.Jumpstart(model, **KEEPING) as keep:
        for _ in range(steps):
            x = points(512, directions, chance)
            rebuilt, code = model(x)
            loss = (rebuilt - x).square().sum(1).mean() + 0.05 * code.sum(1).mean() + keeping * keep.penalty()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        rebuilt, code = model(fresh)
    lost = (rebuilt - fresh).square().sum() / (fresh - fresh.mean(0)).square().sum()
    return alive.census(model, fresh).units.dead, lost.item(), (code > 0).sum(1).float().mean().item()


def main() -> None:
    """Three seeds of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    for keeping in (False, True):
        for seed in range(asked.seeds):
            dead, lost, on = trained(seed, asked.steps, keeping=keeping)
            print(
                f"{'penalty' if keeping else 'plain'}, seed {seed}: {dead} dead, {lost:.4f} lost, {on:.1f} on",
                flush=True,
            )


if __name__ == "__main__":
    main()
