"""stable-baselines3: the penalty in the gradient of every step of an algorithm with one optimiser."""

from __future__ import annotations

from os import PathLike
from types import TracebackType
from typing import Any, Self

from torch import Tensor, nn

from ..errors import AliveError, require
from .attachment import Attachment, Replaced
from .probe import Probe

with require("alive.integrations.stable_baselines3", "alive[sb3]"):
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.callbacks import BaseCallback


class Keeping(BaseCallback):  # type: ignore[misc]
    """Keeps the policy of PPO, A2C, DQN and the like alive inside a `with` block; it is the callback of learn too.

        with Keeping(model) as keep:
            model.learn(10_000, callback=keep)

    An algorithm computes its loss where nobody can add to it. So the penalty's own gradient is put in place between
    zero_grad() and backward(), which adds the loss's to it: the same sum, before any clipping, at the price of a second
    way back through the policy. `options` are those of `alive.Jumpstart`. It is logged as alive/penalty; with a `probe`
    a census is logged before every `probe.every`-th rollout. `save_to` is a file that gets the state at every
    `save_every`-th step of the environments and at the end of learn, `resume_from` one to go on from. At the end of
    the block, and after an exception, the model is as before.
    """

    def __init__(
        self,
        model: BaseAlgorithm,
        *,
        probe: Probe | None = None,
        save_to: str | PathLike[str] | None = None,
        save_every: int = 1000,
        resume_from: str | PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        optimiser = getattr(model.policy, "optimizer", None)
        parts = [name for name in ("actor", "critic") if hasattr(getattr(model.policy, name, None), "optimizer")]
        if optimiser is None or parts:
            raise AliveError(
                f"{type(model).__name__} trains with several optimisers, and alive adds to one",
                "Take an algorithm with one, such as PPO, A2C or DQN",
            )
        self.attachment, self.probe = Attachment(options), probe
        self.save_to, self.save_every = save_to, save_every
        if resume_from is not None:
            self.attachment.load(resume_from)
        self._kept, self._optimiser, self._rollouts = model, optimiser, 0
        self._zero: Replaced | None = None
        self._learns = False

    def __enter__(self) -> Self:
        self.attachment.attach(self._kept.policy)
        self._zero = Replaced(self._optimiser, "zero_grad", self._add)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._learns = False
        if self._zero is not None:
            self._zero.restore()
        self.attachment.detach()

    def _on_training_start(self) -> None:
        if self.attachment.keep is None or self.model is not self._kept:
            raise AliveError(
                "this callback keeps no model that learns here",
                "Write: with Keeping(model) as keep: model.learn(..., callback=keep)",
            )
        self._learns = True

    def _on_step(self) -> bool:
        if self.save_to is not None and self.n_calls % self.save_every == 0:
            self.attachment.save(self.save_to)
        return True

    def _on_rollout_start(self) -> None:
        """A rollout of the algorithm, or the learning from the one before, has ended: log what it was."""
        self.attachment.forget()  # PPO may stop in the middle of a step
        for name, value in self.attachment.read().items():
            self.logger.record(name, value)
        if self.probe is not None:
            for name, value in self.probe.look(self._kept.policy, self._rollouts).items():
                self.logger.record(name, value)
        self._rollouts += 1

    def _on_rollout_end(self) -> None:
        self.attachment.progress(self.num_timesteps, self.locals["total_timesteps"])

    def _on_training_end(self) -> None:
        self._learns = False
        if self.save_to is not None:
            self.attachment.save(self.save_to)

    def _add(self, zero_grad: Any, *args: Any, **kwargs: Any) -> None:
        """Forget the old gradient, and begin the new one with the penalty's."""
        zero_grad(*args, **kwargs)
        if not self._learns:
            raise AliveError("learn does not know who keeps its policy alive", "Write model.learn(..., callback=keep)")
        penalty = self._penalty()
        if penalty.requires_grad:
            penalty.backward(retain_graph=True)  # the loss's own way back goes through the same graph

    def _penalty(self) -> Tensor:
        """The penalty of the pass just made; the policies of PPO and A2C are of Tanh unless told otherwise."""
        try:
            return self.attachment.penalty()
        except AliveError:
            if getattr(self._kept.policy, "activation_fn", None) is nn.Tanh and not self.attachment.has_penalties:
                raise AliveError(
                    f"the policy of {type(self._kept).__name__} is made of Tanh, and such units cannot die",
                    "Train without alive, or make it with policy_kwargs={'activation_fn': torch.nn.ReLU}",
                ) from None
            raise
