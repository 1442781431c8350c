import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from alive.data import Data, tensors
from alive.errors import AliveError
from alive.nn import AnnealedDropout, Rectangular, RectangularConv
from alive.train import Result, Settings, checkpoint, train


def toy() -> Data:
    x = torch.randn(22, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    return tensors(x, torch.arange(22) % 3, test_x=x[:5], test_y=[0, 1, 2, 0, 1], name="toy")


def dense(**more: Any) -> nn.Module:
    return Rectangular(9, 3, depth=2, width=5, generator=torch.Generator().manual_seed(1), **more)


def everything() -> nn.Module:
    return dense(batch_norm=True, dropout=lambda: AnnealedDropout(0.5, 6))


def conv() -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    return RectangularConv(1, 3, depth=2, width=4, batch_norm=True, dropout=nn.Dropout, generator=generator)


def assert_same(a: nn.Module, b: nn.Module) -> None:
    for (name, one), other in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


class StopAt:
    """Ends a run abruptly at a step: a keeper that raises."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __repr__(self) -> str:
        return type(self).__name__

    def penalty(self) -> torch.Tensor:
        if self.left == 0:
            raise RuntimeError("power cut")
        self.left -= 1
        return torch.zeros(())

    def set_progress(self, fraction: float) -> None: ...


@pytest.mark.law
@pytest.mark.parametrize("build", [everything, conv, dense])
@pytest.mark.parametrize(
    "more",
    [
        {"optimiser": "adam", "batch_size": 5, "shuffle": True},
        {"optimiser": "sgd", "batch_size": 8, "shuffle": True, "weight_decay": 0.01},
        {"optimiser": "sgd", "momentum": 0.0},
        {"optimiser": "adam"},
        {"optimiser": "adam", "batch_size": 5, "channels_last": True},
        {"optimiser": "sgd", "batch_size": 5, "channels_last": True},
    ],
)
def test_half_and_half_equals_the_whole_to_the_bit(
    build: Callable[[], nn.Module], more: dict[str, Any], tmp_path: Path
) -> None:
    data, path = toy(), tmp_path / "run.safetensors"
    whole, halved, fresh = build(), build(), build()
    straight = train(whole, data, Settings(epochs=6, **more))
    first = train(halved, data, Settings(epochs=3, **more), checkpoint=path)
    torch.manual_seed(123)  # the world moves on in between
    about = checkpoint.load(path).about["place"]
    second = train(fresh, data, Settings(epochs=6, **more), checkpoint=path, resume=True)
    assert_same(whole, fresh)
    assert straight.rows == second.rows
    assert straight.rows[:3] == first.rows
    assert second.seconds > about["seconds"] > 0  # the time of both halves


@pytest.mark.law
@pytest.mark.parametrize("steps", [1, 4, 5, 7, 14])
def test_a_cut_at_any_step_loses_nothing_that_was_saved(steps: int, tmp_path: Path) -> None:
    """Five steps an epoch, saved after every one, cut after `steps` of fifteen: within epochs and at their ends."""
    data, path, settings = toy(), tmp_path / "run", Settings(epochs=3, batch_size=5, shuffle=True)
    whole, cut = everything(), everything()
    straight = train(whole, data, settings, keep=StopAt(99))
    with pytest.raises(RuntimeError, match="power cut"):
        train(cut, data, settings, keep=StopAt(steps), checkpoint=path, checkpoint_every=0)
    about = checkpoint.load(path).about["place"]
    assert (about["epoch"], about["step"]) == divmod(steps, 5)
    resumed = everything()
    again = StopAt(99)
    result = train(resumed, data, settings, keep=again, checkpoint=path, resume=True)
    assert again.left == 99 - (15 - steps), "no step is taken twice"
    assert_same(whole, resumed)
    assert result.rows == straight.rows


def finished(path: Path, build: Callable[[], nn.Module] = everything, **more: Any) -> Result:
    return train(build(), toy(), Settings(epochs=2, batch_size=8, **more), checkpoint=path)


def test_resuming_a_finished_run_returns_it(tmp_path: Path) -> None:
    path, settings = tmp_path / "run", Settings(epochs=2, batch_size=8)
    before = finished(path)
    model = everything()
    assert train(model, toy(), settings, checkpoint=path, resume=True).rows == before.rows
    assert_same(model, reload(path))


def reload(path: Path) -> nn.Module:
    model = everything()
    model.load_state_dict(checkpoint.load(path).model)
    return model


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2).to(torch.bfloat16), nn.Linear(2, 2).double())
    model.add_module("tied", model[0])
    optimiser = torch.optim.Adam(model.parameters())
    sum(p.sum().float() for p in model.parameters()).backward()  # type: ignore[union-attr]
    optimiser.step()
    kept = checkpoint.capture(model, optimiser, {"story": [1, None, 0.1]})
    checkpoint.save(kept, tmp_path / "a")
    loaded = checkpoint.load(tmp_path / "a")
    assert loaded.about["story"] == [1, None, 0.1]
    assert loaded.model.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert loaded.model[name].dtype == value.dtype
        assert torch.equal(loaded.model[name], value)
    assert set(loaded.optimiser["1.weight"]) == {"step", "exp_avg", "exp_avg_sq"}
    assert torch.equal(loaded.random["cpu"], torch.get_rng_state())


def test_every_cut_and_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    finished(path, dense)
    whole = path.read_bytes()
    step = max(1, len(whole) // 150)
    for at in range(0, len(whole), step):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            with pytest.raises(AliveError, match=r"damaged|no checkpoint|not a checkpoint|format"):
                checkpoint.load(path)


def test_foreign_files(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "tensors")
    torch.save({"a": torch.zeros(2)}, tmp_path / "pickle")
    (tmp_path / "text").write_text("epoch,loss\n")
    (tmp_path / "folder").mkdir()
    for name, says in {
        "tensors": "not a checkpoint of a training run",
        "pickle": "damaged or no checkpoint",
        "text": "damaged or no checkpoint",
        "folder": "there is no checkpoint",
    }.items():
        with pytest.raises(AliveError, match=says):
            train(dense(), toy(), checkpoint=tmp_path / name, resume=True)


def test_another_format_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path / "run")
    monkeypatch.setattr(checkpoint, "FORMAT", 2)
    with pytest.raises(AliveError, match="format 1, expected 2"):
        checkpoint.load(tmp_path / "run")


def test_another_architecture_is_described(tmp_path: Path) -> None:
    finished(tmp_path / "run", dense)
    for other, says in {
        Rectangular(9, 3, depth=4, width=5): r"4 missing: hidden.2.linear.weight, .*, \.\.\.",
        Rectangular(9, 3, depth=1, width=5): "2 unexpected: hidden.1.linear.bias, hidden.1.linear.weight",
        Rectangular(9, 3, depth=2, width=6): r"5 different: .*\(float32\[5, 9\], model float32\[6, 9\]\)",
        copy.deepcopy(dense()).double(): "6 different",
    }.items():
        before = copy.deepcopy(other)
        with pytest.raises(AliveError, match=says):
            train(other, toy(), Settings(epochs=2, batch_size=8), checkpoint=tmp_path / "run", resume=True)
        assert_same(before, other)
    frozen = dense()
    next(frozen.parameters()).requires_grad_(False)
    with pytest.raises(AliveError, match="trained 6 parameters, the model trains 5"):
        train(frozen, toy(), Settings(epochs=2, batch_size=8), checkpoint=tmp_path / "run", resume=True)


def test_other_terms_are_named(tmp_path: Path) -> None:
    path, data = tmp_path / "run", toy()
    finished(path)
    with pytest.raises(AliveError) as caught:
        train(everything(), data, Settings(epochs=2, batch_size=4, lr=0.5), checkpoint=path, resume=True)
    assert "batch_size was 8, asked 4; lr was 0.01, asked 0.5" in str(caught.value)
    assert "seed" not in str(caught.value)
    settings = Settings(epochs=2, batch_size=8)
    with pytest.raises(AliveError, match="keep was None, asked 'StopAt'"):
        train(everything(), data, settings, checkpoint=path, resume=True, keep=StopAt(9))
    other = tensors(data.train_x + 1, data.train_y, name="toy")
    with pytest.raises(AliveError, match="data was 'toy of 22 points"):
        train(everything(), other, settings, checkpoint=path, resume=True)
    with pytest.raises(AliveError, match="in epoch 2, asked for 1"):
        train(everything(), data, Settings(epochs=1, batch_size=8), checkpoint=path, resume=True)


class Untouched(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        raise AssertionError("training began")


def test_a_path_that_cannot_be_written_is_refused_before_training(tmp_path: Path) -> None:
    data = tensors([[1.0], [2.0]], [0, 1])
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "no" / "run", tmp_path / "file" / "run", tmp_path):
        with pytest.raises(AliveError, match="cannot write"):
            train(Untouched(1, 1), data, checkpoint=path)
    with pytest.raises(AliveError, match="exists already"):
        train(Untouched(1, 1), data, checkpoint=tmp_path / "file")

    class Strange(Untouched):
        def get_extra_state(self) -> object:
            return {"not": "a tensor"}

    with pytest.raises(AliveError, match="'_extra_state' is not a tensor"):
        train(Strange(1, 1), data, checkpoint=tmp_path / "run")
    assert sorted(os.listdir(tmp_path)) == ["file"], "nothing is left behind"


def test_bytes_read_at_another_scale_are_another_run(tmp_path: Path) -> None:
    from alive.data import images

    pixels = torch.randint(256, (12, 1, 3, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = images(pixels, torch.arange(12) % 3)
    train(conv(), data, Settings(epochs=1), checkpoint=tmp_path / "run")
    with pytest.raises(AliveError, match="belongs to another run: data was"):
        train(conv(), data.unscaled(), Settings(epochs=2), checkpoint=tmp_path / "run", resume=True)


@pytest.mark.parametrize("about", ["{}", '{"settings": {}, "place": 3}', "[]", "no json"])
def test_a_whole_file_of_another_version_is_refused(about: str, tmp_path: Path) -> None:
    finished(tmp_path / "run")
    kept = checkpoint.load(tmp_path / "run")
    found = {f"model/{name}": value for name, value in kept.model.items()}
    header = {"alive": about, "format": str(checkpoint.FORMAT), "sum": checkpoint._sum(found, about)}
    save_file(found, tmp_path / "other", header)
    with pytest.raises(AliveError, match=r"lacks something|is damaged"):
        train(everything(), toy(), Settings(epochs=2, batch_size=8), checkpoint=tmp_path / "other", resume=True)


def test_a_second_run_at_the_same_path_is_refused_while_the_first_lasts(tmp_path: Path) -> None:
    path, settings = tmp_path / "run", Settings(epochs=2, batch_size=8)
    said: list[str] = []

    def also(epoch: int, model: nn.Module) -> None:
        with pytest.raises(AliveError) as caught:
            train(everything(), toy(), settings, checkpoint=path, resume=True)
        said.append(str(caught.value))

    train(everything(), toy(), settings, checkpoint=path, on_epoch=also)
    assert len(said) == 2
    assert "another process is training with" in said[0]
    assert os.listdir(tmp_path) == ["run"], "the lock goes with the run"
    train(everything(), toy(), settings, checkpoint=path, resume=True)


def test_weights_that_are_not_there_or_no_safetensors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(AliveError, match=r"there is no file .*Correct the path"):
        checkpoint.load_weights(dense(), tmp_path / "none")
    (tmp_path / "weights.pt").write_bytes(b"noise" * 9)
    with pytest.raises(AliveError, match=r"no safetensors file.*safetensors.torch.save_file"):
        checkpoint.load_weights(dense(), tmp_path / "weights.pt")
    torch.save(dense(), tmp_path / "weights.pt")
    with pytest.raises(AliveError, match=r"holds a pickled .*can run code. Save model.state_dict\(\) alone"):
        checkpoint.load_weights(dense(), tmp_path / "weights.pt")


@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        (lambda state: state, ""),
        (lambda state: {"state_dict": state, "epoch": 3}, "taken out of 'state_dict'"),
        (lambda state: {"model": {"model." + name: value for name, value in state.items()}}, "prefix 'model.' dropped"),
        (
            lambda state: {f"module._orig_mod.{n}": v for n, v in state.items()},
            "prefix 'module.' dropped, prefix '_orig",
        ),
        (lambda state: {"model_state_dict": {n: v.half() for n, v in state.items()}}, "float16 read as float32"),
    ],
)
def test_weights_of_torch_are_unwrapped_and_said(tmp_path: Path, wrap, said) -> None:
    donor, model = dense(), dense()
    with torch.no_grad():
        for p in donor.parameters():
            p.copy_(torch.randint(9, p.shape))  # which halves hold exactly
    torch.save(wrap(donor.state_dict()), tmp_path / "weights.pt")
    assert said in checkpoint.load_weights(model, tmp_path / "weights.pt")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), donor.parameters(), strict=True))


def test_weights_of_another_network_are_named(tmp_path: Path) -> None:
    state = dense().state_dict()
    first = next(iter(state))
    state["strange"] = state.pop(first)
    torch.save(state, tmp_path / "weights.pt")
    with pytest.raises(AliveError, match=f"1 missing: {first}; 1 unexpected: strange"):
        checkpoint.load_weights(dense(), tmp_path / "weights.pt")
