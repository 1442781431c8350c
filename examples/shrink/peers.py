"""alive beside its peers, as a table in Markdown: python peers.py

Needs torch-pruning and vector-quantize-pytorch; auto_LiRPA too, which PyPI has only in a version of 2022: install it
from github.com/Verified-Intelligence/auto_LiRPA. Seconds are of one processor, the median of several runs.
"""

import contextlib
import io
import warnings
from statistics import median
from time import process_time

import torch
import torch_pruning
from torch import nn
from torch.nn import functional as F
from vector_quantize_pytorch import FSQ, LFQ

import alive
from alive.surgery import shrink

try:
    import auto_LiRPA
except ImportError:  # its rows are left out
    auto_LiRPA = None

torch.set_num_threads(1)
warnings.simplefilter("ignore")
PLANTED = {"a": (0, 3), "b": (1, 2, 5), "c": (0, 4, 7)}  # channels that are dead, by layer


def timed(act, runs=5):
    """What came of it, and the seconds it took."""
    took = []
    for _ in range(runs):
        began = process_time()
        found = act()
        took.append(process_time() - began)
    return found, median(took)


def row(*cells):
    """A line of the table."""
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def size(net):
    """Parameters."""
    return sum(p.numel() for p in net.parameters())


class DenseBlock(nn.Module):
    """Three convolutions, each of which reads what comes from the stem and all before it."""

    def __init__(self, stem):
        super().__init__()
        self.stem = nn.Conv2d(3, 3, 1) if stem else nn.Identity()
        self.a, self.b, self.c = (nn.Conv2d(wide, 8, 3, padding=1) for wide in (3, 11, 19))
        self.head = nn.Linear(27, 10)
        with torch.no_grad():
            for name, units in PLANTED.items():
                self.get_submodule(name).bias[list(units)] = -99.0

    def forward(self, x):
        """Concatenations, means over the places, scores."""
        x = self.stem(x)
        for layer in (self.a, self.b, self.c):
            x = torch.cat([x, F.relu(layer(x))], 1)
        return self.head(x.mean((2, 3)))


def told(net, x):
    """The planted channels cut out by torch-pruning's graph of dependencies, which is told them."""
    for name, units in PLANTED.items():
        graph = torch_pruning.DependencyGraph().build_dependency(net, x[:1])
        cut = torch_pruning.prune_conv_out_channels
        graph.get_pruning_group(net.get_submodule(name), cut, [*units]).prune()
    return net


def chosen(net, x):
    """A third of every layer, chosen by torch-pruning itself."""
    importance = torch_pruning.importance.GroupMagnitudeImportance(p=2)
    pruner = torch_pruning.pruner.MagnitudePruner
    pruner(net, x[:1], importance=importance, pruning_ratio=1 / 3, ignored_layers=[net.stem, net.head]).step()
    return net


def block(stem):
    """The same network every time."""
    torch.manual_seed(0)
    return DenseBlock(stem).eval()


def concatenation():
    """Parameters before and after, and how far the outputs moved."""
    ways = {
        "alive shrink, which finds them": lambda net, x: shrink(net, x).model,
        "torch-pruning, told which": told,
        "torch-pruning, a third by magnitude": chosen,
    }
    for stem, what in ((True, "dense block behind a stem"), (False, "dense block that reads the images")):
        net, x = block(stem), torch.randn(500, 3, 8, 8)
        for name, way in ways.items():
            try:
                small, took = timed(lambda way=way, stem=stem, x=x: way(block(stem), x))
                with torch.no_grad():
                    apart = float((small(x) - net(x)).abs().max() / net(x).abs().max())
            except RuntimeError:
                row(f"{what}, 8 of 24 channels dead", name, "a network whose layers do not fit", "")
                continue
            found = f"{size(net):,} to {size(small):,} parameters; outputs moved by {apart:.1e} of the largest"
            row(f"{what}, 8 of 24 channels dead", name, found, f"{took:.3f}")


class Quantised(nn.Module):
    """An encoder, a quantiser and a decoder."""

    def __init__(self, quantiser):
        super().__init__()
        self.encode, self.quantise, self.decode = nn.Linear(8, 8), quantiser, nn.Linear(8, 3)

    def forward(self, x):
        """The output alone, as such models return it."""
        return self.decode(self.quantise(self.encode(x).unsqueeze(1))[0].squeeze(1))


def codes():
    """Codes that no point chooses."""
    torch.manual_seed(0)
    x = torch.randn(20_000, 8)
    for name, quantiser, count in (
        ("FSQ, 1,000 codes", FSQ([8, 5, 5, 5], dim=8), 1000),
        ("LFQ, 1,024 codes", LFQ(codebook_size=1024, dim=8), 1024),
    ):
        net = Quantised(quantiser).eval()

        def indices(net=net):
            return count_of(net.quantise(net.encode(x).unsqueeze(1))[1])

        def count_of(chosen, count=count):
            return count - len(torch.unique(chosen))

        with torch.no_grad():
            unused, took = timed(indices)
        census, ours = timed(lambda net=net: alive.census(net, x))
        found = sum(layer.units.dead for layer in census.layers if layer.units.total == count)
        row(name, "alive census", f"{found} never chosen", f"{ours:.3f}")
        row(name, "torch.unique of its indices", f"{unused} never chosen", f"{took:.3f}")


def dense():
    """A random network of 784 inputs and two hidden layers of 256."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).eval()


def bounds():
    """Hidden units of 512 that are proved to stay on one side, for every input of a small box."""
    net, x = dense(), torch.rand(784)
    for radius in (0.005, 0.0062):
        name = f"784-256-256-10, box of radius {radius}"
        for limit in (0, 20):
            proofs, took = timed(
                lambda r=radius, t=limit: shrink(net, box=(x - r, x + r), time_limit=t).report.proofs, 1
            )
            row(name, f"alive shrink, {limit} seconds for proofs", f"{proofs.decided} of 512 proved", f"{took:.2f}")
        for method in ("CROWN", "CROWN-Optimized") if auto_LiRPA else ():
            stable, took = timed(lambda r=radius, m=method: by_lirpa(net, x[None], r, m))
            row(name, f"auto_LiRPA, {method}", f"{stable} of 512 proved", f"{took:.2f}")


def by_lirpa(net, x, radius, method):
    """Hidden units whose bounds do not hold zero inside."""
    with contextlib.redirect_stdout(io.StringIO()):
        bounded = auto_LiRPA.BoundedModule(net, x)
        box = auto_LiRPA.PerturbationLpNorm(norm=float("inf"), x_L=x - radius, x_U=x + radius)
        bounded.compute_bounds(x=(auto_LiRPA.BoundedTensor(x, box),), method=method)
    ends = [node.inputs[0] for node in bounded.nodes() if type(node).__name__ == "BoundRelu"]
    return sum(int(((end.lower >= 0) | (end.upper <= 0)).sum()) for end in ends)


def by_hooks(net, x):
    """Units that no point turns on, and those that all do, by hooks on modules of class nn.ReLU."""
    counts = {"dead": 0, "linear": 0}

    def look(_module, _given, out):
        on = out > 0
        counts["dead"] += int((~on.any(0)).sum())
        counts["linear"] += int(on.all(0).sum())

    hooks = [module.register_forward_hook(look) for module in net.modules() if isinstance(module, nn.ReLU)]
    with torch.no_grad():
        net(x)
    for hook in hooks:
        hook.remove()
    return counts


def census():
    """Dead and linear units on 2,000 points."""
    torch.manual_seed(0)
    deep = nn.Sequential(*[part for _ in range(50) for part in (nn.Linear(4, 4), nn.ReLU())], nn.Linear(4, 1))
    for name, net, wide in (("50x4", deep, 4), ("784-256-256-10", dense(), 784)):
        x = torch.randn(2000, wide)
        found, ours = timed(lambda net=net, x=x: alive.census(net, x), 21)
        counts, took = timed(lambda net=net, x=x: by_hooks(net, x), 21)
        units = found.units
        row(f"{name}, 2,000 points", "alive census", f"{units.dead} dead, {units.linear} linear", f"{ours:.3f}")
        row(f"{name}, 2,000 points", "hooks", f"{counts['dead']} dead, {counts['linear']} linear", f"{took:.3f}")


if __name__ == "__main__":
    row("what", "by", "found", "seconds")
    row("---", "---", "---", "--:")
    for part in (concatenation, codes, bounds, census):
        part()
