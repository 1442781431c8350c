import math
from itertools import chain

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from alive.data import Augment, Data, digits, images, moons, tensors
from alive.errors import AliveError
from alive.nn import AnnealedDropout, Rectangular, RectangularConv
from alive.train import Epoch, LrSchedule, Mover, Settings, task_loss, train


def toy(classes: int = 2, points: int = 30) -> Data:
    x = torch.randn(points, 3, generator=torch.Generator().manual_seed(0))
    y = torch.arange(points) % classes
    return tensors(x, y, test_x=x[:7] + 0.1, test_y=y[:7], classes=classes, name="toy")


def net(data: Data, **more: object) -> Rectangular:
    generator = torch.Generator().manual_seed(1)
    return Rectangular(data.inputs, data.outputs, depth=2, width=6, generator=generator, **more)  # type: ignore[arg-type]


class Decay:
    """A keeper whose penalty is a share of the squared weights; remembers what it was told."""

    def __init__(self, model: nn.Module, share: float) -> None:
        self.model, self.share, self.told, self.asked = model, share, [], 0  # type: ignore[var-annotated]

    def __repr__(self) -> str:
        return type(self).__name__

    def penalty(self) -> Tensor:
        self.asked += 1
        return self.share * sum((p**2).sum() for p in self.model.parameters())  # type: ignore[return-value]

    def set_progress(self, fraction: float) -> None:
        self.told.append(fraction)


@pytest.mark.twin
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_the_loop_equals_plain_torch(classes: int, optimiser: str) -> None:
    data = toy(classes)
    ours, theirs = net(data), net(data)
    result = train(ours, data, Settings(epochs=3, batch_size=8, lr=0.02, optimiser=optimiser), keep=Decay(ours, 0.01))

    if optimiser == "adam":
        steps: torch.optim.Optimizer = torch.optim.Adam(theirs.parameters(), lr=0.02, eps=1e-7)
    else:
        steps = torch.optim.SGD(theirs.parameters(), lr=0.02, momentum=0.9)
    for row in result.rows:
        losses = []
        for at in range(0, 30, 8):
            x, y = data.train_x[at : at + 8], data.train_y[at : at + 8]
            logits = theirs(x)
            loss = (
                F.binary_cross_entropy(logits.sigmoid()[:, 0], y.float())
                if classes == 2
                else F.nll_loss(logits.log_softmax(1), y)
            )
            losses += [loss.item()] * len(y)
            steps.zero_grad()
            (loss + 0.01 * sum((p**2).sum() for p in theirs.parameters())).backward()
            steps.step()
        assert row.loss == pytest.approx(np.mean(losses), rel=1e-4)
        logits = theirs(data.train_x)
        guesses = (logits[:, 0] > 0).long() if classes == 2 else logits.argmax(1)
        assert row.train_accuracy == pytest.approx((guesses == data.train_y).float().mean().item(), abs=1e-6)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_keeper_is_asked_once_a_step_and_told_how_far_it_is() -> None:
    data = toy()
    model = net(data)
    keep = Decay(model, 0.1)
    result = train(model, data, Settings(epochs=2, batch_size=8), keep=keep)
    assert keep.asked == 8
    assert keep.told == [step / 8 for step in range(8)]
    assert all(row.penalty > 0 for row in result.rows)


def test_rows_last_and_best() -> None:
    data, seen = moons(), []  # type: ignore[var-annotated]
    result = train(
        net(data), data, Settings(epochs=40), on_epoch=lambda epoch, model: seen.append((epoch, model.training))
    )
    assert [row.epoch for row in result.rows] == list(range(40))
    assert seen == [(epoch, False) for epoch in range(40)]
    assert result.last == result.rows[-1]
    assert result.best.train_accuracy == max(row.train_accuracy for row in result.rows)
    assert result.best.test_accuracy == max(row.test_accuracy or 0 for row in result.rows)
    assert result.stopped is None
    assert result.seconds > 0
    assert result.rows[-1].loss < result.rows[0].loss


def test_no_test_set_no_test_accuracy() -> None:
    data = tensors(torch.randn(4, 3), [0, 1, 0, 1])
    result = train(net(data), data, Settings(epochs=1))
    assert result.rows[0].test_accuracy is None
    assert result.best.test_accuracy is None


def test_accuracy_is_measured_in_eval_mode() -> None:
    data = toy()
    model = net(data, dropout=lambda: AnnealedDropout(0.9, 10))
    result = train(model, data, Settings(epochs=1, lr=1e-12))
    model.eval()
    expected = ((model(data.train_x)[:, 0] > 0).long() == data.train_y).double().mean().item()
    assert result.rows[0].train_accuracy == expected


def test_order_follows_from_seed_and_epoch() -> None:
    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line, self.seen = nn.Linear(1, 1), []  # type: ignore[var-annotated]

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                self.seen.append(x[:, 0].int().tolist())
            return self.line(x)  # type: ignore[no-any-return]

    data = tensors(torch.arange(10.0)[:, None], torch.arange(10) % 2)

    def orders(**settings: object) -> list[list[int]]:
        spy = Spy()
        train(spy, data, Settings(epochs=2, batch_size=4, lr=1e-9, **settings))  # type: ignore[arg-type]
        return spy.seen

    plain, shuffled = orders(), orders(shuffle=True)
    assert plain == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] * 2
    assert [len(batch) for batch in shuffled] == [4, 4, 2] * 2
    first, second = (list(chain(*shuffled[at : at + 3])) for at in (0, 3))
    assert sorted(first) == sorted(second) == list(range(10))
    assert len({tuple(order) for order in (first, second, range(10))}) == 3
    assert orders(shuffle=True) == shuffled
    assert orders(shuffle=True, seed=11) != shuffled


def test_runs_repeat_and_leave_the_random_state_alone() -> None:
    data, before = toy(), torch.get_rng_state()
    runs = [net(data, dropout=lambda: AnnealedDropout(0.5, 10)) for _ in range(3)]
    for model, seed in zip(runs, (3, 3, 4), strict=True):
        train(model, data, Settings(epochs=2, seed=seed))
    assert torch.equal(before, torch.get_rng_state())
    first, again, other = (model.output.weight for model in runs)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_dropout_anneals_with_the_epochs() -> None:
    data, rates = toy(), []  # type: ignore[var-annotated]
    model = net(data, dropout=lambda: AnnealedDropout(0.8, 4))
    train(model, data, Settings(epochs=5), on_epoch=lambda _, m: rates.append(m.hidden[1].dropout.p))
    assert rates == pytest.approx([0.8, 0.6, 0.4, 0.2, 0.0])


def test_double_precision_models_get_double_points() -> None:
    data = toy()
    assert train(net(data).double(), data, Settings(epochs=1)).stopped is None


class Explodes(Decay):
    """A penalty that is finite for five steps."""

    def penalty(self) -> Tensor:
        return super().penalty() * (math.inf if self.asked == 6 else 1)


def test_a_penalty_that_is_not_finite_stops_the_run_before_the_weights_move() -> None:
    data = toy()
    model, twin = net(data), net(data)
    result = train(model, data, Settings(epochs=4, batch_size=8), keep=Explodes(model, 0.1))
    assert result.stopped is not None
    assert "the penalty is inf in epoch 1, step 1" in result.stopped
    assert "task loss" not in result.stopped
    assert "0.01, a smaller penalty" in result.stopped
    assert len(result.rows) == 1

    class Limited(Decay):
        def penalty(self) -> Tensor:
            if self.asked == 5:
                raise StopIteration
            return super().penalty()

    with pytest.raises(StopIteration):  # the same five steps, ended another way
        train(twin, data, Settings(epochs=4, batch_size=8), keep=Limited(twin, 0.1))
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_loss_that_is_not_finite_is_named() -> None:
    data = toy(4)
    model = net(data)
    nn.init.constant_(model.output.bias[:1], math.nan)
    result = train(model, data, Settings(epochs=2))
    assert result.stopped is not None
    assert "the task loss is nan in epoch 0, step 0" in result.stopped
    assert result.rows == ()
    assert result.last is None
    assert result.best.train_accuracy is None


def test_a_gradient_that_is_not_finite_is_found_even_in_the_last_step() -> None:
    class Root(Decay):
        def penalty(self) -> Tensor:  # 0 with an infinite slope
            return (0 * self.model.output.bias.sum()).sqrt()  # type: ignore[union-attr, operator]

    data = toy()
    model = net(data)
    result = train(model, data, Settings(epochs=1), keep=Root(model, 1))
    assert result.stopped is not None
    assert "logits are not finite after epoch 0" in result.stopped


def test_misfits_are_refused_before_training() -> None:
    data = toy()
    frozen = net(data).requires_grad_(False)
    for model, settings, says in [
        (net(data), Settings(batch_size=31), "31 is larger than the 30"),
        (frozen, Settings(), "no parameter to train"),
        (net(data, batch_norm=True), Settings(batch_size=29), "batch of one"),
        (Rectangular(3, 4, depth=1, width=2), Settings(epochs=1), ""),
    ]:
        if says:
            with pytest.raises(AliveError, match=says):
                train(model, data, settings)
        else:
            train(model, data, settings)  # four logits for two classes are unusual but sound
    with pytest.raises(AliveError, match=r"logits \[30, 1\] for 30 points with labels up to 3"):
        train(net(data), toy(4), Settings(epochs=1))
    with pytest.raises(AliveError, match="checkpoint_every"):
        train(net(data), data, checkpoint_every=-1)
    with pytest.raises(AliveError, match="nothing to resume"):
        train(net(data), data, resume=True)
    with pytest.raises(AliveError, match=r"logits \[3, 1, 1\] for 3 points"):
        task_loss(torch.zeros(3, 1, 1), torch.tensor([0, 1, 1]))
    y = torch.tensor([0, 1, 1])
    assert task_loss(torch.ones(3), y) == task_loss(torch.ones(3, 1), y), "one logit a point, in either shape"


def test_loggers_get_every_row_and_are_closed_even_on_failure() -> None:
    class Notes:
        def __init__(self) -> None:
            self.rows: list[Epoch] = []
            self.closed = 0

        def row(self, row: Epoch) -> None:
            self.rows.append(row)

        def close(self) -> None:
            self.closed += 1

    data, notes = toy(), Notes()
    model = net(data)
    result = train(model, data, Settings(epochs=3), loggers=[notes])
    assert tuple(notes.rows) == result.rows
    assert notes.closed == 1
    assert model.training
    with pytest.raises(AliveError):
        train(model, data, Settings(batch_size=99), loggers=[notes])
    assert notes.closed == 2


class Half(Decay):
    """A keeper that owns one parameter, and halves it after each step."""

    def owned(self) -> list[nn.Parameter]:
        return [self.model.output.bias]

    def after_step(self) -> None:
        assert self.model.output.bias.grad is not None
        with torch.no_grad():
            self.model.output.bias.mul_(0.5).grad = None


def test_what_a_keeper_owns_the_optimiser_leaves_alone():
    data = toy()
    model = net(data)
    with torch.no_grad():
        model.output.bias.fill_(8.0)
    keep = Half(model, 0.0)
    assert isinstance(keep, Mover)
    assert not isinstance(Decay(model, 0.0), Mover)
    train(model, data, Settings(epochs=3, weight_decay=0.1), keep=keep)
    assert model.output.bias.tolist() == [1.0]


@pytest.mark.twin
@pytest.mark.parametrize("schedule", [LrSchedule("step", milestones=(2, 4), factor=0.3), LrSchedule("cosine")])
def test_the_schedule_is_torchs(schedule):
    data, epochs = toy(), 6
    ours, theirs = net(data), net(data)
    train(ours, data, Settings(epochs=epochs, optimiser="sgd", lr=0.5, batch_size=10, schedule=schedule))
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.5, momentum=0.9)
    if schedule.shape == "step":
        clock = torch.optim.lr_scheduler.MultiStepLR(optimiser, [2, 4], gamma=0.3)
    else:
        clock = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in range(epochs):
        for x, y in zip(data.train_x.split(10), data.train_y.split(10), strict=True):
            optimiser.zero_grad()
            task_loss(theirs(x), y).backward()
            optimiser.step()
        clock.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def _conv(data: Data) -> RectangularConv:
    channels = data.train_x.shape[1]
    return RectangularConv(
        channels, data.outputs, depth=2, width=4, init="kaiming", generator=torch.Generator().manual_seed(1)
    )


def _bytes(points: int = 60) -> Data:
    chance = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (points, 3, 8, 8), generator=chance, dtype=torch.uint8)
    return images(x, torch.arange(points) % 3, test_x=x[:9], test_y=torch.arange(9) % 3)


@pytest.mark.twin
@pytest.mark.parametrize("channels_last", [False, True])
def test_images_of_bytes_train_as_the_floats_they_stand_for(channels_last):
    data = _bytes()
    floats = tensors(
        data.pixels(data.train_x), data.train_y, test_x=data.pixels(data.test_x), test_y=data.test_y, classes=3
    )
    settings = Settings(epochs=3, batch_size=20)
    ours, theirs = _conv(data), _conv(data)
    one = train(ours, data, Settings(epochs=3, batch_size=20, channels_last=channels_last))
    other = train(theirs, floats, settings)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert one.last.test_accuracy == other.last.test_accuracy


def test_running_accuracy_is_that_of_the_steps():
    data = digits().subset(100)
    model = _conv(data)
    rows = train(model, data, Settings(epochs=1, batch_size=100, lr=0.01, running=True)).rows
    before = (_conv(data)(data.train_x).argmax(1) == data.train_y).double().mean().item()
    assert rows[0].train_accuracy == pytest.approx(before)
    exact = train(_conv(data), data, Settings(epochs=1, batch_size=100, lr=0.01)).rows
    assert exact[0].test_accuracy == rows[0].test_accuracy


def test_augmented_runs_follow_from_their_seed_and_differ_from_plain_ones(tmp_path):
    data = _bytes()

    def run(**more: object) -> list[float]:
        return [row.loss for row in train(_conv(data), data, Settings(epochs=4, batch_size=20, **more)).rows]  # type: ignore[arg-type]

    assert run(augment=Augment()) == run(augment=Augment())
    assert run(augment=Augment()) != run(augment=Augment(), seed=11)
    assert run(augment=Augment()) != run()
    # resumed in between, nothing changes
    settings = Settings(epochs=4, batch_size=20, augment=Augment(), schedule=LrSchedule("step", milestones=(1, 3)))
    whole, part = _conv(data), _conv(data)
    train(whole, data, settings)
    path = tmp_path / "c.safetensors"
    train(part, data, Settings(epochs=2, batch_size=20, augment=Augment(), schedule=settings.schedule), checkpoint=path)
    train(part, data, settings, checkpoint=path, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), part.parameters(), strict=True))


def test_augmentation_needs_images():
    with pytest.raises(AliveError, match="augmentation is for images"):
        train(net(toy()), toy(), Settings(epochs=1, augment=Augment()))
