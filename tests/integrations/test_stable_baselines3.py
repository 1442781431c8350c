"""stable-baselines3: the penalty in the gradient of every step, its state in a file, nothing left behind."""

from __future__ import annotations

import pytest
import torch
from by_hand import same, weights
from hooks import hooks_of
from torch import nn

pytest.importorskip("stable_baselines3")
pytestmark = pytest.mark.filterwarnings("ignore")

from stable_baselines3 import A2C, DQN, PPO, SAC  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402

from alive import AliveError, Jumpstart  # noqa: E402
from alive.integrations.probe import Probe  # noqa: E402
from alive.integrations.stable_baselines3 import Keeping  # noqa: E402

POLICY = {"activation_fn": nn.ReLU, "net_arch": [8, 8]}


def ppo(**more):
    told = {"n_steps": 32, "batch_size": 16, "n_epochs": 2, "seed": 0, "device": "cpu", "policy_kwargs": POLICY}
    return PPO("MlpPolicy", "CartPole-v1", **(told | more))


def dqn():
    told = {"learning_starts": 16, "train_freq": 4, "batch_size": 16, "seed": 0, "device": "cpu"}
    return DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [8, 8]}, **told)


def a2c():
    return A2C("MlpPolicy", "CartPole-v1", seed=0, device="cpu", n_steps=8, policy_kwargs=POLICY)


def learnt_by_hand(monkeypatch, model, options, *, joined):
    """Learn with a backward() that makes the penalty's way back first, or that of the sum of the two."""
    backward, found = torch.Tensor.backward, []
    with Jumpstart(model.policy, **options) as keep, monkeypatch.context() as patched:

        def both(loss, *args, **kwargs):
            penalty = keep.penalty()
            found.append(penalty.item())
            if joined:
                return backward(loss + penalty, *args, **kwargs)
            backward(penalty, retain_graph=True)
            return backward(loss, *args, **kwargs)

        patched.setattr(torch.Tensor, "backward", both)
        model.learn(64)
        return found, keep.state_dict()


@pytest.mark.parametrize("make", [ppo, a2c, dqn])
def test_the_penalty_is_that_of_a_loop_by_hand(make, heard, monkeypatch):
    options = {"weight": "auto"}
    wanted, state = learnt_by_hand(monkeypatch, mine := make(), options, joined=False)
    heard.clear()
    twin = make()  # it sets the seed of everything
    with Keeping(twin, **options) as keep:
        twin.learn(64, callback=keep)
    assert len(wanted) >= 8
    assert heard == wanted
    assert same(weights(twin.policy), weights(mine.policy))
    assert keep.attachment.state_dict()["multipliers"] == state["multipliers"]


def test_two_ways_back_are_the_way_back_of_the_sum(monkeypatch):
    first, _ = learnt_by_hand(monkeypatch, mine := a2c(), {}, joined=False)
    second, _ = learnt_by_hand(monkeypatch, twin := a2c(), {}, joined=True)
    assert first == pytest.approx(second, rel=1e-4)
    for a, b in zip(weights(mine.policy), weights(twin.policy), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-5)


def test_the_state_is_saved_and_resumed(tmp_path, heard):
    model = ppo()
    with Keeping(model, weight="auto", save_to=tmp_path / "half.json") as keep:
        model.learn(32, callback=keep)
        kept = keep.attachment.state_dict()
        model.learn(32, callback=keep, reset_num_timesteps=False)
    model.save(tmp_path / "model.zip")  # nothing of ours lies in its way
    again = PPO.load(tmp_path / "model.zip", env=model.get_env())
    with Keeping(again, weight="auto", resume_from=tmp_path / "half.json") as more:
        assert more.attachment.state_dict() == keep.attachment.state_dict() != kept
        again.learn(32, callback=more)


def test_nothing_is_left_after_an_exception():
    model = ppo()
    before, had = hooks_of(model.policy), set(vars(model.policy.optimizer))

    class Fails(BaseCallback):
        def _on_step(self):
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"), Keeping(model) as keep:
        model.learn(32, callback=[keep, Fails()])
    assert hooks_of(model.policy) == before
    assert set(vars(model.policy.optimizer)) == had


def test_wrong_use_is_told():
    model = ppo()
    with pytest.raises(AliveError, match="callback=keep"), Keeping(model):
        model.learn(32)
    with pytest.raises(AliveError, match="with Keeping"):
        model.learn(32, callback=Keeping(model))
    with pytest.raises(AliveError, match="at once"), Keeping(model), Keeping(model):
        pass
    with pytest.raises(AliveError, match="SAC trains with several optimisers"):
        Keeping(SAC("MlpPolicy", "Pendulum-v1", device="cpu", buffer_size=10))
    assert "zero_grad" not in vars(model.policy.optimizer)


def test_a_step_that_is_broken_off_is_forgotten(heard):
    model = ppo(target_kl=1e-12)  # after its first step, PPO leaves the second in the middle
    with Keeping(model, probe=Probe(torch.randn(20, 4), layers=["mlp_extractor.*"])) as keep:
        model.learn(64, callback=keep)
        assert len(heard) == 2
        assert len(keep.attachment.keep._recorder.passes.kept) > 0
        keep.on_rollout_start()
        assert keep.attachment.keep._recorder.passes.kept == ()
    assert keep.probe.last.units.total == 32


def test_a_policy_of_tanh_is_told():
    """The policy that PPO has unless told otherwise."""
    model = ppo(policy_kwargs={"net_arch": [8]})
    with (
        pytest.raises(AliveError, match=r"PPO is made of Tanh.*'activation_fn': torch.nn.ReLU"),
        Keeping(model) as keep,
    ):
        model.learn(64, callback=keep)
