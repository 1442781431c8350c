"""Every kind of target against a plain torch loop and against numpy: regression, several labels, words, one's own."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score
from torch import Tensor, nn
from torch.nn import functional as F

from alive.data import Data, images, moons, tensors
from alive.errors import AliveError
from alive.nn import Rectangular
from alive.penalties import Jumpstart
from alive.train import CsvLogger, Epoch, Settings, TensorBoardLogger, first, progress_bar, task_of, train
from alive.train.losses import LOSSES, binary_cross_entropy, cross_entropy, loss_of, squared_error, tensor_of, unclear
from alive.train.ranks import Ranks
from alive.train.scores import Fit
from alive_papers.fleet import Member, train_fleet

SETTINGS = Settings(epochs=3, batch_size=8, lr=0.02, optimiser="sgd")


def numbers(*shape: int, points: int = 30, seed: int = 0) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    x = torch.randn(points, 3, generator=chance)
    return x, torch.randn(points, *shape, generator=chance) + x.sum(1).reshape(points, *[1] * len(shape))


def mlp(outputs: int, inputs: int = 3) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(inputs, 7), nn.ReLU(), nn.Linear(7, outputs))


class Words(nn.Module):
    """A model of token ids: logits [N, T, V]."""

    def __init__(self, vocabulary: int = 11, turned: bool = False) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embed, self.mix = nn.Embedding(vocabulary, 6), nn.Linear(6, 8)
        self.out, self.turned = nn.Linear(8, vocabulary), turned

    def forward(self, ids: Tensor) -> Tensor:
        logits = self.out(self.mix(self.embed(ids)).relu())
        return logits.transpose(1, 2) if self.turned else logits


def by_hand(model: nn.Module, x: Tensor, y: Tensor, loss, settings: Settings = SETTINGS) -> list[float]:
    """The loop in plain torch: the mean loss of each epoch."""
    steps, means = torch.optim.SGD(model.parameters(), lr=settings.lr, momentum=settings.momentum), []
    for _ in range(settings.epochs):
        total = 0.0
        for at in range(0, len(y), settings.batch_size or len(y)):
            some = slice(at, at + (settings.batch_size or len(y)))
            value = loss(model(x[some]), y[some])
            total += value.item() * len(y[some])
            steps.zero_grad()
            value.backward()
            steps.step()
        means.append(total / len(y))
    return means


def expect_twins(ours: nn.Module, theirs: nn.Module) -> None:
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.twin
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
def test_regression_equals_plain_torch_and_its_r2_is_sklearns(shape: tuple[int, ...]) -> None:
    x, y = numbers(*shape)
    outputs = y[:1].numel()
    data = tensors(x, y, test_x=x[:9] + 0.1, test_y=y[:9])

    def net() -> nn.Sequential:
        return mlp(outputs).append(nn.Unflatten(1, shape)) if len(shape) > 1 else mlp(outputs)

    ours, theirs = net(), net()
    result = train(ours, data, SETTINGS)
    means = by_hand(theirs, x, y, lambda out, want: ((out.reshape(want.shape) - want) ** 2).mean())
    expect_twins(ours, theirs)
    assert [row.loss for row in result.rows] == pytest.approx(means, rel=1e-5)
    assert result.last.score == "r2"
    for found, xs, ys in [(result.last.train, x, y), (result.last.test, x[:9] + 0.1, y[:9])]:
        guess = theirs(xs).detach().reshape(len(ys), -1).double().numpy()
        assert found == pytest.approx(r2_score(ys.reshape(len(ys), -1).double().numpy(), guess), abs=1e-5)
    assert result.best.test == max(row.test for row in result.rows)


@pytest.mark.twin
def test_whole_numbers_are_regressed_when_asked() -> None:
    x, _ = numbers()
    y = torch.arange(30) % 5 + 20
    ours, theirs = mlp(1), mlp(1)
    result = train(ours, tensors(x, y), SETTINGS, loss="mse")
    means = by_hand(theirs, x, y, lambda out, want: F.mse_loss(out[:, 0], want.float()))
    assert [row.loss for row in result.rows] == pytest.approx(means, rel=1e-5)
    expect_twins(ours, theirs)


@pytest.mark.twin
@pytest.mark.parametrize("soft", [False, True])
def test_several_labels_a_point_equal_plain_torch(soft: bool) -> None:
    x, y = numbers(4)
    y = y.sigmoid() if soft else (y > 0).long()
    ours, theirs = mlp(4), mlp(4)
    result = train(ours, tensors(x, y), SETTINGS, loss="bce" if soft else None)
    means = by_hand(theirs, x, y, lambda out, want: F.binary_cross_entropy(out.sigmoid(), want.float()))
    assert [row.loss for row in result.rows] == pytest.approx(means, rel=1e-5)
    expect_twins(ours, theirs)
    right = ((theirs(x) > 0) == (y > 0.5)).double().mean().item()
    assert result.last.train_accuracy == pytest.approx(right)


@pytest.mark.twin
@pytest.mark.parametrize("turned", [False, True])
def test_words_equal_plain_torch_and_what_is_left_out_does_not_count(turned: bool) -> None:
    chance = torch.Generator().manual_seed(3)
    ids = torch.randint(11, (30, 6), generator=chance)
    y = torch.randint(11, (30, 6), generator=chance)
    y[torch.rand(30, 6, generator=chance) < 0.3] = -100
    y[8:16] = -100  # a whole batch of nothing: the mean over none is 0
    data = tensors(ids, y, integers=True)
    ours, theirs = Words(turned=turned), Words()
    result = train(ours, data, SETTINGS)

    def loss(out: Tensor, want: Tensor) -> Tensor:
        kept = want != -100
        log = out.log_softmax(-1)[kept]
        return -log[torch.arange(len(log)), want[kept]].sum() / max(1, kept.sum())

    assert [row.loss for row in result.rows] == pytest.approx(by_hand(theirs, ids, y, loss), rel=1e-5)
    expect_twins(ours, theirs)
    named = theirs(ids).argmax(-1).numpy()
    assert result.last.train_accuracy == pytest.approx((named == y.numpy())[y.numpy() >= 0].mean())


@pytest.mark.twin
def test_a_loss_of_ones_own_is_its_own_score() -> None:
    x, y = numbers()

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        return (output[:, 0] - targets).abs().mean()

    ours, theirs = mlp(1), mlp(1)
    result = train(ours, tensors(x, y, test_x=x[:5], test_y=y[:5]), SETTINGS, loss=loss)
    assert [row.loss for row in result.rows] == pytest.approx(by_hand(theirs, x, y, loss), rel=1e-5)
    expect_twins(ours, theirs)
    assert result.last.score == "loss"
    assert result.last.train == pytest.approx(loss(theirs(x), y).item(), rel=1e-5)
    assert result.last.test == pytest.approx(loss(theirs(x[:5]), y[:5]).item(), rel=1e-5)
    assert result.best.train == min(row.train for row in result.rows)
    module = train(mlp(1), tensors(x, y[:, None]), SETTINGS, loss=nn.L1Loss())
    assert module.rows[0].loss == pytest.approx(result.rows[0].loss, rel=1e-5)


class Answers(nn.Module):
    """Wraps what a net gives, as libraries do."""

    def __init__(self, net: nn.Module, how) -> None:
        super().__init__()
        self.net, self.how = net, how

    def forward(self, *args: Tensor, **named: Tensor):
        return self.how(self.net(*args, **named))


@pytest.mark.twin
@pytest.mark.parametrize(
    "how",
    [
        lambda z: SimpleNamespace(loss=None, logits=z),
        lambda z: {"hidden": z * 2, "logits": z},
        lambda z: (z, z * 2),
        lambda z: {"ids": z.argmax(1), "answer": z},
        lambda z: [(z, 3)],
    ],
)
@pytest.mark.parametrize("kind", ["classes", "real"])
def test_answers_as_libraries_give_them(how, kind: str) -> None:
    x, y = numbers(3)
    data = tensors(x, y.argmax(1) if kind == "classes" else y)
    plain, wrapped = mlp(3), Answers(mlp(3), how)
    expected, found = (train(model, data, SETTINGS) for model in (plain, wrapped))
    assert expected.rows == found.rows
    expect_twins(plain, wrapped.net)


def test_unclear_answers_are_said() -> None:
    x, y = numbers(3)
    data = tensors(x, y)
    said = task_of(first(Answers(mlp(3), lambda z: (z, z * 2)), data)).said
    assert said == (
        "the targets [30, 3] are real numbers: loss mse, score R²",
        "the model gives 2 tensors in a tuple; the first is trained",
    )
    assert unclear({"ids": torch.tensor([1]), "state": torch.ones(1), "pooled": torch.ones(1)}).endswith(
        "2 tensors in a dict; 'state' is trained"
    )
    assert unclear({"logits": torch.ones(1), "hidden": torch.ones(1)}) == unclear((torch.ones(1), 3)) == ""
    for nothing in (3, None, (), {"ids": torch.tensor([1])}, torch.tensor([1])):
        with pytest.raises(AliveError, match="not logits"):
            tensor_of(nothing)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b, self.out = nn.Linear(3, 5), nn.Embedding(4, 5), nn.Linear(5, 1)

    def forward(self, x: Tensor, kind: Tensor) -> Tensor:
        return self.out((self.a(x) + self.b(kind)).relu())


@pytest.mark.twin
@pytest.mark.parametrize("named", [False, True])
def test_several_inputs_by_place_and_by_name(named: bool) -> None:
    x, y = numbers()
    kinds = torch.arange(30) % 4
    given = {"kind": kinds, "x": x} if named else (x, kinds)
    tested = {"x": x[:5], "kind": kinds[:5]} if named else (x[:5], kinds[:5])
    ours, theirs = Two(), Two()
    data = tensors(given, y, test_x=tested, test_y=y[:5], integers=True)
    result = train(ours, data, SETTINGS)
    steps = torch.optim.SGD(theirs.parameters(), lr=0.02, momentum=0.9)
    for _ in range(SETTINGS.epochs):
        for some in torch.arange(30).split(8):
            steps.zero_grad()
            F.mse_loss(theirs(x[some], kinds[some])[:, 0], y[some]).backward()
            steps.step()
    expect_twins(ours, theirs)
    assert result.last.test == pytest.approx(
        r2_score(y[:5].numpy(), theirs(x[:5], kinds[:5])[:, 0].detach().numpy()), abs=1e-5
    )


def test_whole_numbers_are_floats_to_a_model_that_cannot_read_them() -> None:
    ids = torch.randint(5, (20, 3), generator=torch.Generator().manual_seed(0))
    whole, floats = tensors(ids, ids.sum(1) % 2, integers=True), tensors(ids, ids.sum(1) % 2)
    assert train(mlp(1), whole, SETTINGS).rows == train(mlp(1), floats, SETTINGS).rows
    assert first(mlp(1), whole).data.train_x.is_floating_point()
    assert first(Words(), whole).data.train_x.dtype == torch.int64
    with pytest.raises(AliveError, match=r"could not run on points \[8, 3\]: index out of range"):
        train(Words(2), whole, SETTINGS)


def test_a_first_look_leaves_nothing_behind() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    x, y = numbers()
    first(net, tensors(x, y))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [module.training for module in net] == [True, False, True, True]


def test_constant_targets_have_no_r2() -> None:
    x, y = numbers(3)
    y[:, 1] = 0.1
    data = tensors(x, y)
    assert task_of(first(mlp(3), data)).said[1] == (
        "1 of 3 targets are constant and have no R²; the mean is over the others"
    )
    model = mlp(3)
    row = train(model, data, SETTINGS).last
    guess = model(x).detach().double().numpy()
    both = [r2_score(y[:, at].double().numpy(), guess[:, at]) for at in (0, 2)]
    assert row.train == pytest.approx(np.mean(both), abs=1e-5)
    same = tensors(x, torch.full((30,), 0.3))
    assert "R² is undefined" in task_of(first(mlp(1), same)).said[1]
    result = train(mlp(1), same, SETTINGS)
    assert (result.last.train, result.best.train) == (None, None)
    assert str(result.last) == "train R² undefined (constant targets)"


@pytest.mark.law
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_r2_adds_up_over_parts_and_keeps_its_digits(shift: float) -> None:
    chance = torch.Generator().manual_seed(5)
    y = torch.randn(200, 3, generator=chance).double() + shift
    guess = y + torch.randn(200, 3, generator=chance).double()
    parts = sum(Fit().sums(a, b) for a, b in zip(guess.split(64), y.split(64), strict=True))
    assert Fit().value(parts, y) == pytest.approx(r2_score(y.numpy(), guess.numpy()), abs=1e-9)


@pytest.mark.parametrize(
    ("loss", "output", "targets", "says"),
    [
        ("mse", (8, 3), torch.zeros(8), r"gave \[8, 3\] for targets \[8\].* Let it give \[N\]"),
        ("mse", (8,), torch.zeros(8, 2), r"Let it give \[N, 2\]"),
        ("mse", (1, 8), torch.zeros(8), r"gave \[1, 8\] for targets \[8\]"),
        ("mse", (8, 1), torch.zeros(1, 8), r"gave \[8, 1\] for targets \[1, 8\]"),
        ("bce", (8, 3), torch.zeros(8).long(), r"gave \[8, 3\] for targets \[8\].*Use --loss ce"),
        ("bce", (8, 3), torch.full((8, 3), 2), "needs targets from 0 to 1, got 2 to 2"),
        ("bce", (8,), torch.full((8,), -0.5), "got -0.5 to -0.5"),
        ("ce", (8, 3), torch.zeros(8), "needs class numbers.*Use --loss mse"),
        ("ce", (8, 1), torch.zeros(8).long(), "needs a logit for each class, and the model gives one. Use --loss bce"),
        ("ce", (8,), torch.zeros(8).long(), r"gave logits \[8\] for labels \[8\]. Cross-entropy needs \[N, classes\]"),
        ("ce", (8, 3), torch.full((8,), 3), "3 classes, and labels go up to 3"),
        ("ce", (8, 4, 4), torch.zeros(8, 4).long(), "may have their classes last or second"),
        ("ce", (8, 5, 4), torch.zeros(8, 6).long(), r"needs \[N, 6, classes\]"),
        ("ce", (8, 4), torch.zeros(8, 4).long(), r"logits \[8, 4\] for labels \[8, 4\]"),
    ],
)
def test_shapes_that_do_not_fit_get_one_sentence(loss: str, output, targets: Tensor, says: str) -> None:
    with pytest.raises(AliveError, match=says):
        LOSSES[loss](torch.zeros(output), targets)


@pytest.mark.twin
def test_losses_are_torchs_where_shapes_agree() -> None:
    z, y = torch.randn(6, 4, 3, 2), torch.randint(4, (6, 3, 2))
    torch.testing.assert_close(cross_entropy(z, y), F.cross_entropy(z, y))
    torch.testing.assert_close(cross_entropy(z.movedim(1, -1), y), F.cross_entropy(z, y))
    one = torch.randn(6, 1)
    for targets in (torch.rand(6), torch.rand(6, 1)):
        for output in (one, one[:, 0]):
            flat = targets.reshape(6)
            torch.testing.assert_close(squared_error(output, targets), F.mse_loss(one[:, 0], flat))
            wanted = F.binary_cross_entropy_with_logits(one[:, 0], flat)
            torch.testing.assert_close(binary_cross_entropy(output, targets), wanted)
    with pytest.raises(AliveError, match="did you mean 'mse'"):
        loss_of("msee")


@pytest.mark.parametrize(
    ("data", "model", "loss", "says"),
    [
        (tensors(*numbers(3)), mlp(2), None, r"gave \[30, 2\] for targets \[30, 3\]"),
        (tensors(*numbers(3)), mlp(3), "ce", "needs class numbers"),
        (tensors(numbers()[0], F.one_hot(torch.arange(30) % 3)), mlp(3), None, "single 1 in each row.*argmax"),
        (tensors(numbers()[0], torch.arange(90).view(30, 3)), mlp(3), None, "go up to 89.*--loss mse"),
        (tensors(numbers()[0], torch.arange(30) % 3), mlp(3), "bce", "got 0 to 2"),
        (tensors(numbers()[0], torch.arange(30) % 3), mlp(1), "ce", "Use --loss bce"),
        (tensors(numbers()[0], torch.arange(30) // 15 * 4), mlp(3), "ce", "3 classes, and labels go up to 4"),
        (moons(), mlp(1, 2), lambda out, y: out.mean().item(), "gave a float, not one number"),
        (moons(), mlp(1, 2), lambda out, y: out, r"gave a tensor \[85, 1\], not one number"),
        (moons(), mlp(1, 2), lambda out, y: out.missing, r"failed with AttributeError.*\(test_tasks.py, line"),
        (moons(), mlp(1, 2), lambda out, y: out.detach().mean(), "does not depend on the weights"),
        (moons(), mlp(1, 2), "mes", "did you mean 'mse'"),
    ],
)
def test_tasks_that_cannot_be_are_refused_before_the_first_step(data: Data, model, loss, says: str) -> None:
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(AliveError, match=says):
        train(model, data, Settings(epochs=1), loss=loss)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_copying_words_is_no_language_model() -> None:
    ids = torch.randint(11, (9, 6))
    with pytest.raises(AliveError, match=r"word for word.*x\[:, 1:\]"):
        train(Words(), tensors(ids, ids, integers=True), Settings(epochs=1))
    train(Words(), tensors(ids[:, :-1], ids[:, 1:], integers=True), Settings(epochs=1))


def test_a_running_score_and_a_fleet_are_for_classes() -> None:
    data = tensors(*numbers())
    with pytest.raises(AliveError, match="running takes the accuracy"):
        train(mlp(1), data, Settings(epochs=1, running=True))
    with pytest.raises(AliveError, match="a fleet needs one label a point"):
        train_fleet([Member(2, 3, epochs=1)], data)
    with pytest.raises(AliveError, match="the score of this run is R², not accuracy"):
        _ = train(mlp(1), data, Settings(epochs=1)).last.train_accuracy


def test_outputs_that_are_not_finite_end_the_run() -> None:
    x, y = numbers()
    result = train(mlp(1), tensors(x, y * 1e15), Settings(epochs=30, optimiser="sgd", lr=1e3))
    assert result.stopped is not None
    assert "not finite" in result.stopped or "task loss is" in result.stopped


def test_bytes_with_real_targets_are_read_as_pixels() -> None:
    x = torch.randint(0, 256, (12, 1, 4, 4), dtype=torch.uint8)
    data = images(x, torch.rand(12))
    floats = tensors(data.pixels(x), data.train_y)
    one, other = (train(mlp(1, 16).insert(0, nn.Flatten()), each, SETTINGS) for each in (data, floats))
    assert one.rows == other.rows


@pytest.mark.twin
@pytest.mark.parametrize("kind", ["real", "words", "own"])
def test_runs_of_every_task_resume_to_the_bit(tmp_path: Path, kind: str) -> None:
    x, y = numbers(2)
    ids = torch.randint(11, (30, 6))
    data = tensors(ids[:, :-1], ids[:, 1:], integers=True) if kind == "words" else tensors(x, y)

    def loss(output: Tensor, targets: Tensor) -> Tensor:
        return F.huber_loss(output, targets)

    def run(epochs: int, model: nn.Module, **more: object) -> tuple[Epoch, ...]:
        settings = Settings(epochs=epochs, batch_size=8, shuffle=True)
        with Jumpstart(model, 1e-3) as keep:
            return train(model, data, settings, keep=keep, loss=loss if kind == "own" else None, **more).rows

    def net() -> nn.Module:
        return Words() if kind == "words" else mlp(2)

    whole, part = net(), net()
    rows = run(6, whole)
    path, log = tmp_path / "run.safetensors", tmp_path / "log.csv"
    run(2, part, checkpoint=path, loggers=[CsvLogger(log)])
    fresh = net()
    assert run(6, fresh, checkpoint=path, resume=True, loggers=[CsvLogger(log)]) == rows
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), fresh.parameters(), strict=True))
    lines = log.read_text().splitlines()
    score = {"real": "r2", "words": "accuracy", "own": "loss"}[kind]
    assert lines[0] == f"epoch,loss,penalty,train_{score},test_{score}"
    assert [float(line.split(",")[3]) for line in lines[1:]] == [row.train for row in rows]
    if kind != "words":
        with pytest.raises(AliveError, match="loss was"):
            train(
                net(),
                data,
                Settings(epochs=6, batch_size=8, shuffle=True),
                loss=nn.MSELoss(),
                checkpoint=path,
                resume=True,
            )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_logs_name_the_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    x, y = numbers()
    data = tensors(x, y, test_x=x[:5], test_y=y[:5])
    log = tmp_path / "log.csv"
    train(mlp(1), moons_of_three(), Settings(epochs=1), loggers=[CsvLogger(log)])
    assert "train_accuracy" in log.read_text()
    loggers = [CsvLogger(log), TensorBoardLogger(tmp_path / "board")]  # a log of another score is replaced
    rows = train(mlp(1), data, Settings(epochs=2), loggers=loggers, progress=progress_bar(show=True)).rows
    assert log.read_text().splitlines()[0] == "epoch,loss,penalty,train_r2,test_r2"
    assert len(log.read_text().splitlines()) == 3
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"loss", "penalty", "train_r2", "test_r2"}
    assert [e.value for e in events.Scalars("test_r2")] == pytest.approx([row.test for row in rows])
    assert f"R² {rows[-1].train:.3f}, test {rows[-1].test:.3f}" in " ".join(capsys.readouterr().err.split())


def moons_of_three() -> Data:
    x, _ = numbers()
    return tensors(x, torch.arange(30) % 2)


RANKED = Settings(epochs=3, batch_size=9, optimiser="sgd", lr=0.05)


def ranked(kind: str) -> tuple[nn.Module, Data, object]:
    """A run that two ranks share: parts of 5 and 4 points, in which unequal numbers of words are left out."""
    if kind == "words":
        chance = torch.Generator().manual_seed(7)
        ids = torch.randint(11, (31, 6), generator=chance)
        y = torch.randint(11, (31, 6), generator=chance)
        y[::3, 1:] = -100
        y[:5] = -100  # all that the first rank has of the first batch
        return Words().double(), tensors(ids, y, test_x=ids[:7], test_y=y[-7:], integers=True), None
    x, y = numbers(2, points=31)
    own = nn.L1Loss() if kind == "own" else None
    return mlp(2).double(), tensors(x, y, test_x=x[:7], test_y=y[:7]), own


def shared(ranks: Ranks) -> dict[str, dict[str, list]]:
    """What one of the ranks of test_ranks.py finds in training every task."""
    found = {}
    for kind in ("real", "words", "own"):
        model, data, loss = ranked(kind)
        rows = train(model, data, RANKED, loss=loss, ranks=ranks).rows
        weights = torch.cat([p.flatten() for p in model.parameters()]).tolist()
        found[kind] = {"rows": [list(row.columns().values()) for row in rows], "weights": weights}
    return found


def expect_as_one(found: dict[str, dict[str, list]]) -> None:
    """The same as one process finds."""
    assert set(found) == {"real", "words", "own"}
    for kind, theirs in found.items():
        model, data, loss = ranked(kind)
        rows = train(model, data, RANKED, loss=loss).rows
        assert [row.score for row in rows] == [{"real": "r2", "words": "accuracy", "own": "loss"}[kind]] * 3
        for ours, row in zip(theirs["rows"], rows, strict=True):
            assert ours == pytest.approx(list(row.columns().values()), abs=1e-10)
        weights = torch.cat([p.flatten() for p in model.parameters()]).tolist()
        assert theirs["weights"] == pytest.approx(weights, abs=1e-10)


@pytest.mark.twin
def test_a_rectangle_fits_real_targets() -> None:
    x, y = numbers(2)
    data = tensors(x, y)
    net = Rectangular(data.inputs, data.outputs, depth=2, width=8, init="kaiming")
    assert train(net, data, Settings(epochs=200, lr=0.02)).last.train > 0.9
