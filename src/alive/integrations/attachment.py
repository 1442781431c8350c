"""What all trainers share: the penalty of one run, attached when it begins and let go of when it ends."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..errors import AliveError, expect_one_of
from ..files import write_atomically
from ..penalties import Jumpstart
from ..penalties.jumpstart import OPTIONS, is_kept

PENALTY, WEIGHT = "alive/penalty", "alive/weight"


class Attachment:
    """The penalty of a run that somebody else's trainer makes; its state outlives the run.

    >>> import torch
    >>> model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    >>> attachment = Attachment({"mode": "U"})
    >>> attachment.attach(model)
    >>> attachment.add(model(torch.randn(8, 2)).square().mean()).backward()
    >>> sorted(attachment.read())
    ['alive/penalty', 'alive/weight']
    >>> attachment.detach()
    >>> attachment.state_dict()
    {'progress': 0.0}
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        for name in options:
            expect_one_of("option", name, OPTIONS)
        self.options = dict(options)
        self.keep: Jumpstart | None = None
        self._state: dict[str, Any] | None = None
        self._sum: Tensor | float = 0.0
        self._count = 0
        self.has_penalties = False  # since it was attached

    def attach(self, model: nn.Module) -> None:
        """Attach the penalty to a model, and go on from a state that was loaded."""
        if is_kept(model):
            raise AliveError(
                "two things would add the penalty to this model at once: a Jumpstart or an integration of alive is "
                "attached to it already",
                "Keep one of them",
            )
        self.keep = Jumpstart(model, **self.options)
        self._sum, self._count, self.has_penalties = 0.0, 0, False
        if self._state is not None:
            try:
                self.keep.load_state_dict(self._state)
            except BaseException:
                self.detach()
                raise

    def detach(self) -> None:
        """Let go of the model; the state stays, for whoever saves it after the run."""
        if self.keep is not None:
            self._state = self.keep.state_dict()
            self.keep.detach()
            self.keep = None

    def progress(self, done: float, total: float) -> None:
        """So many steps of so many are done; a weight that changes needs to know the end."""
        assert self.keep is not None
        if 0 < total < math.inf:
            self.keep.set_progress(done / total)
        elif self.keep.schedule.end is not None:
            raise AliveError(
                "the weight of the penalty changes over training, and this trainer does not say when training ends",
                "Tell the trainer how many epochs or steps to make, or take a constant weight",
            )

    def forget(self) -> None:
        """Drop passes that were no part of a step: somebody looked at the model, or a batch was tried and given up."""
        assert self.keep is not None
        self.keep.forget()

    def add(self, loss: Any, *, share: float = 1.0) -> Tensor:
        """The loss of the pass just made plus this share of its penalty."""
        task, penalty = expect_loss(loss), self.penalty()
        return task + (penalty if share == 1.0 else penalty * share)

    def penalty(self) -> Tensor:
        """The penalty of the pass just made, which `read` will tell of."""
        assert self.keep is not None
        penalty = self.keep.penalty()
        self._sum, self._count = self._sum + penalty.detach(), self._count + 1
        self.has_penalties = True
        return penalty

    def read(self) -> dict[str, float]:
        """The mean penalty since the last reading, and the weight; empty where there was none."""
        if self.keep is None or not self._count:
            return {}
        found = {PENALTY: float(self._sum) / self._count, WEIGHT: float(self.keep.weight)}
        self._sum, self._count = 0.0, 0
        return found

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs, as JSON holds it; empty before the first run."""
        return self.keep.state_dict() if self.keep is not None else dict(self._state or {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there, now or when the next run begins; an empty state begins anew."""
        self._state = dict(state) or None
        if self.keep is not None and self._state is not None:
            self.keep.load_state_dict(self._state)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, whole or not at all."""
        write_atomically(Path(path), json.dumps(self.state_dict()).encode())

    def load(self, path: str | PathLike[str]) -> None:
        """Go on from a file that `save` wrote."""
        try:
            state = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise AliveError(f"there is no state of a penalty in {path}", "Save with the penalty attached") from None
        except (OSError, ValueError) as error:
            raise AliveError(f"{path} holds no state of a penalty: {error}", "Take another file") from None
        if not isinstance(state, dict):
            raise AliveError(f"{path} holds no state of a penalty", "Take another file")
        self.load_state_dict(state)


def expect_loss(loss: Any) -> Tensor:
    """Refuse what is no loss to train by: it is one number, made of the weights in torch."""
    if not isinstance(loss, Tensor):
        raise AliveError(f"the trainer has no loss: it got {type(loss).__name__}", LOSS)
    if loss.numel() != 1 or not loss.is_floating_point():
        kind = f"{str(loss.dtype).removeprefix('torch.')}{list(loss.shape)}"
        raise AliveError(f"the trainer has no loss: it got a tensor {kind}, not one number", LOSS)
    if not loss.requires_grad:
        raise AliveError("the loss does not depend on the weights", "Compute it in torch alone: no detach(), no item()")
    return loss


LOSS = "Give the model labels or the trainer a loss function, so that each step has one number to lower"


class Replaced:
    """A method of one object, replaced until it is put back; a copy or a pickle of the object has its own again."""

    def __init__(self, owner: Any, name: str, change: Callable[..., Any]) -> None:
        self._owner, self._name, self._change = owner, name, change
        self._before = vars(owner).get(name)  # what somebody else has put there
        self.__wrapped__ = getattr(owner, name)
        vars(owner)[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the change makes of the method."""
        return self._change(self.__wrapped__, *args, **kwargs)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, str]]:
        return getattr, (self._owner, self._name)

    def restore(self) -> None:
        """Put back what was there, unless somebody has replaced us."""
        if vars(self._owner).get(self._name) is self:
            if self._before is None:
                del vars(self._owner)[self._name]
            else:
                vars(self._owner)[self._name] = self._before
        self._change = _as_it_is  # whoever still holds us gets the plain method


def _as_it_is(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return method(*args, **kwargs)
