"""Agents whose world changes: stable-baselines3's DQN and PPO balance a pole, and see it another way in each task."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from alive.data import Data
from alive.diagnosis import dormancy
from alive.errors import require
from alive.surgery import revive

from .record import Curves, Run, RunResult, Tell
from .ways import STATE, TAU, attach, note

with require("the study of agents", "alive[sb3]"):
    import gymnasium
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.callbacks import BaseCallback, CallbackList

    from alive.integrations.stable_baselines3 import Keeping

BEST, LOOKED_AT = 500, 512  # the longest episode of CartPole-v1; the latest observations, of which units are counted
SHARED = {"verbose": 0, "device": "cpu"}
KINDS: dict[str, Any] = {
    "DQN": lambda world, run: DQN(
        "MlpPolicy", world, learning_rate=run.lr, buffer_size=2000, learning_starts=500, batch_size=64, train_freq=4,
        target_update_interval=200, exploration_fraction=0.1, exploration_final_eps=0.05, seed=run.seed,
        policy_kwargs={"net_arch": [run.width, run.width]}, **SHARED,
    ),
    "PPO": lambda world, run: PPO(
        "MlpPolicy", world, learning_rate=run.lr, n_steps=256, batch_size=64, n_epochs=5, seed=run.seed,
        policy_kwargs={"net_arch": [run.width, run.width], "activation_fn": nn.ReLU}, **SHARED,
    ),
}  # fmt: skip


class Shuffled(gymnasium.ObservationWrapper):  # type: ignore[misc]
    """What is observed, in another order and with other signs in each task."""

    def __init__(self, world: Any, chance: np.random.Generator) -> None:
        super().__init__(world)
        self.chance, self.size = chance, world.observation_space.shape[0]
        self.turn()

    def turn(self) -> None:
        """The next task begins."""
        self.order, self.signs = self.chance.permutation(self.size), self.chance.choice([-1.0, 1.0], self.size)

    def observation(self, observation: Any) -> Any:
        """As this task shows it."""
        return (observation[self.order] * self.signs).astype(np.float32)


class Heads(nn.Module):
    """The networks of a PPO policy as one module: actions and values of what is observed."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.mlp_extractor, self.action_net, self.value_net = policy.mlp_extractor, policy.action_net, policy.value_net

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Before anything is drawn."""
        acting, judging = self.mlp_extractor(x)
        return self.action_net(acting), self.value_net(judging)


class _Tasks(BaseCallback):  # type: ignore[misc]
    """Turns the world after each task, notes how the network is, and resets after a task what a method resets then."""

    def __init__(self, run: Run, world: Shuffled, network: nn.Module, copies: list[nn.Module], tell: Tell) -> None:
        super().__init__()
        self.run, self.world, self.network, self.copies, self.tell = run, world, network, copies, tell
        self.curves: Curves = {name: [] for name in ("epoch", "balanced", *STATE)}
        self.each = run.steps // int(run.option("tasks", 5))
        self.observed: list[Any] = []
        self.lengths: list[int] = [0]

    def _on_step(self) -> bool:
        self.observed = [*self.observed[1 - LOOKED_AT :], self.locals["new_obs"][0].copy()]
        self.lengths[-1] += 1
        self.lengths += [0] * int(self.locals["dones"][0])
        if self.num_timesteps % self.each == 0:
            self._turn()
        return True

    def _turn(self) -> None:
        ended = self.lengths[:-1] or self.lengths
        self.curves["epoch"].append(float(len(self.curves["epoch"])))
        self.curves["balanced"].append(sum(ended) / len(ended) / BEST)
        x = torch.from_numpy(np.stack(self.observed))
        note(self.curves, self.network, x)
        if self.run.method == "ReDo":
            own, seed = self.model.policy.optimizer, 1000 * self.run.seed + len(self.curves["epoch"])
            revive(self.network, dormancy(self.network, x), own, tau=TAU, seed=seed, copies=self.copies)
        self.world.turn()
        self.lengths = [0]
        self.tell(self.num_timesteps)


def train_agent(run: Run, data: Data, tell: Tell) -> RunResult:
    """An agent over all tasks; the score is how long it balances in the last fifth of them, of what is possible.

    The data are not read.
    """
    torch.manual_seed(run.seed)
    world = Shuffled(gymnasium.make("CartPole-v1"), np.random.default_rng(run.seed))
    agent = KINDS[run.setting](world, run)
    network = agent.policy.q_net if run.setting == "DQN" else Heads(agent.policy)
    copies = [agent.policy.q_net_target] if run.setting == "DQN" else []
    tasks = _Tasks(run, world, network, copies, tell)
    options = run.options_without("tasks")
    with ExitStack() as stack:
        callbacks = [tasks]
        if run.method == "Jumpstart":
            callbacks.append(stack.enter_context(Keeping(agent, mode="U", **options)))
        example = torch.randn(64, world.size)
        attach(run.method, network, agent.policy.optimizer, example, stack, seed=run.seed, copies=copies, **options)
        agent.learn(run.steps, callback=CallbackList(callbacks))
    last = tasks.curves["balanced"][-max(1, len(tasks.curves["epoch"]) // 5) :]
    units = sum(len(bias) for name, bias in network.named_parameters() if name.endswith("bias"))
    return RunResult(tasks.curves, sum(last) / len(last), round(tasks.curves["dead"][-1] * units))
