"""Numbers of units drawn anew, set to zero, and put back if something is amiss; with the optimiser's state."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Adagrad, Optimizer, Rprop

from ...errors import AliveError
from ..models import tensor_of
from .wires import Part, Wires

# What optimisers of torch keep of gradients and steps; anything else may be a copy of the weights.
MOMENTS = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "momentum_buffer", "square_avg", "grad_avg"}
MOMENTS |= {"acc_delta", "sum", "prev", "step_size", "variance"}
NEAR = 0.5  # of the norm of the weights


class Bench:
    """A model under the knife: writes numbers of units, keeps what they were, and resets optimisers to match."""

    def __init__(self, model: nn.Module, optimisers: Sequence[Optimizer], seed: int) -> None:
        self.model, self.optimisers, self.seed = model, optimisers, seed
        self._were: dict[str, Tensor] = {}
        self._masks: dict[str, Tensor] = {}
        self._new: dict[str, nn.Module] = {}

    @property
    def touched(self) -> list[Tensor]:
        """The tensors of which some numbers were written, in the same order in every process."""
        return [tensor_of(self.model, name) for name in sorted(self._were)]

    def write(self, part: Part, units: Tensor, values: Tensor | float) -> None:
        """Give units new numbers; a tensor of values has the shape of the whole, of which the units' are taken."""
        tensor = tensor_of(self.model, part.name)
        if type(tensor.data) is not Tensor:
            raise AliveError(
                f"{part.name} is a {type(tensor.data).__name__}, of which this process may hold only a part",
                "Revive the whole model before it is sharded",
            )
        mask = part.mask(tensor, units)
        self._were.setdefault(part.name, tensor.detach().clone())
        self._masks[part.name] = mask | self._masks.get(part.name, torch.zeros_like(mask))
        with torch.no_grad():
            new = values if isinstance(values, Tensor) else torch.full_like(tensor, values)
            tensor.copy_(torch.where(mask, new.to(tensor.device, tensor.dtype), tensor))

    def blend(self, part: Part, shares: Tensor, values: Tensor | float) -> None:
        """Move the numbers of each unit by a share [C] of the way to new ones."""
        tensor = self.note(part.name)
        with torch.no_grad():
            new = values if isinstance(values, Tensor) else torch.full_like(tensor, values)
            tensor.lerp_(new.to(tensor), part.spread(tensor, shares).to(tensor))

    def teach(self, copies: Sequence[nn.Module]) -> None:
        """Give copies of the model, such as target networks, the numbers that were written."""
        for name, mask in self._masks.items():
            for copy in copies:
                own = tensor_of(copy, name)
                with torch.no_grad():
                    own.copy_(torch.where(mask.to(own.device), tensor_of(self.model, name).to(own), own))

    def note(self, name: str) -> Tensor:
        """A tensor that is about to be changed as a whole, such as a bias that takes over a mean."""
        tensor = tensor_of(self.model, name)
        self._were.setdefault(name, tensor.detach().clone())
        return tensor

    def drawn(self, part: Part) -> Tensor:
        """Numbers as a new module of the kind has them; of a lone weight, as spread as the weight is, and zero biases.

        Every draw of one revival is decided by its seed alone, whatever the process has drawn before.
        """
        path, _, name = part.name.rpartition(".")
        owner = self.model.get_submodule(path)
        if callable(getattr(owner, "reset_parameters", None)):
            if path not in self._new:
                self._new[path] = new = deepcopy(owner).cpu()
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(self._seed_of(path))
                    new.reset_parameters()  # type: ignore[operator]
            return tensor_of(self._new[path], name)
        tensor = tensor_of(self.model, part.name).detach()
        if tensor.ndim < 2:
            return torch.zeros_like(tensor)
        chance = torch.Generator().manual_seed(self._seed_of(part.name))
        size = float(tensor.double().square().mean().sqrt())
        return size * torch.randn(tensor.shape, generator=chance)

    def _seed_of(self, name: str) -> int:
        """A seed of its own for each tensor, and none that a user is likely to have begun with."""
        return crc32(f"revive {self.seed} {name}".encode())

    def undo(self) -> None:
        """Put every number back; optimisers have not been touched yet."""
        with torch.no_grad():
            for name, value in self._were.items():
                tensor_of(self.model, name).copy_(value)

    def forget(self) -> tuple[str, ...]:
        """Set the optimisers' state of what was written as in a new one; says what could not be reset in part."""
        notes: dict[str, None] = {}
        for optimiser in self.optimisers:
            kind = type(optimiser).__name__
            if isinstance(optimiser, LBFGS) and optimiser.state and self._masks:
                notes[f"{kind} keeps its history for all weights together: it is still the old; make a new one"] = None
                continue
            for name, mask in self._masks.items():
                for key in forget(optimiser, tensor_of(self.model, name), mask, self._were[name]):
                    notes[f"{kind} keeps {key} for whole tensors: {name} has still the old"] = None
        return tuple(notes)


def optimisers_of(given: object) -> list[Optimizer]:
    """One optimiser, several, or none, as a list."""
    several = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
    found = [one for one in several if isinstance(one, Optimizer)]
    if len(found) < len(several):
        raise AliveError("the optimiser must be a torch.optim.Optimizer, a list of them, or None")
    return found


def forget(optimiser: Optimizer, parameter: Tensor, mask: Tensor, before: Tensor) -> list[str]:
    """Set an optimiser's state as in a new one where the mask says so; the names of state not held number by number.

    Moments begin at zero. A copy or mean of the weights, known by lying near what they were `before`, begins at the
    weights. Counts of steps stay, as they belong to the whole tensor.

    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> adam = torch.optim.Adam([weight])
    >>> weight.sum().backward()
    >>> adam.step()
    >>> forget(adam, weight, torch.tensor([True, False]), weight), adam.state[weight]["exp_avg"].tolist()
    ([], [0.0, 0.10000000149011612])
    """
    whole = []
    group = next((one for one in optimiser.param_groups if any(p is parameter for p in one["params"])), {})
    for key, value in optimiser.state.get(parameter, {}).items():
        if not isinstance(value, Tensor) or key == "step":
            continue
        if value.shape == parameter.shape:
            start = 0.0
            if isinstance(optimiser, Rprop) and key == "step_size":
                start = float(group["lr"])
            elif isinstance(optimiser, Adagrad) and key == "sum":
                start = float(group["initial_accumulator_value"])
            new = parameter.detach() if _is_copy(key, value, before) else torch.full_like(value, start)
            value.copy_(torch.where(mask.to(value.device), new.to(value), value))
        elif value.numel() > 1:
            whole.append(key)
    return whole


def _is_copy(key: str, value: Tensor, weight: Tensor) -> bool:
    """Whether a tensor is a copy of a weight, or a mean of it over steps."""
    ours, theirs = value.detach().double().cpu(), weight.detach().double().cpu()
    return key not in MOMENTS and bool((ours - theirs).norm() < NEAR * theirs.norm())


def draw_in(bench: Bench, wires: Wires, units: Tensor) -> None:
    """Draw what makes the units anew, and set what each has on its way as it is in a new module."""
    for part in (*wires.into, *wires.each):
        bench.write(part, units, bench.drawn(part))


def zero_out(bench: Bench, wires: Wires, units: Tensor) -> None:
    """Let nothing be read from the units."""
    for part in wires.out:
        bench.write(part, units, 0.0)
