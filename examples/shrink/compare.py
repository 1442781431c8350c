"""Three ways to a small network at the same accuracy: python compare.py plain.safetensors penalised.safetensors

The first is train.py 800,800 --epochs 5, the second the same with --rows or --l1, and is shrunk as it is.
From the first whole units of least norm are taken, by torch.nn.utils.prune (structured, then shrunk, for prune only
sets weights to zero) and by torch-pruning (pip install torch-pruning), and both are trained for one more epoch.
Prints a line of JSON for each.
"""

import json
import sys
from copy import deepcopy

import torch
import torch_pruning
from safetensors.torch import load_file
from torch import nn
from torch.nn.utils import prune
from train import accuracy, network, pixels

from alive.surgery import shrink

torch.set_num_threads(1)
x, y, test_x, test_y = pixels()


def loaded(path):
    """A trained network."""
    net = network([800, 800]).eval()
    net.load_state_dict(load_file(path))
    return net


def hidden(net):
    """The layers whose units may go."""
    return [module for module in net if isinstance(module, nn.Linear)][:-1]


def said(how, ratio, net, before=None):
    """One line."""
    layers = [module for module in net if isinstance(module, nn.Linear)]
    told = {
        "how": how,
        "ratio": ratio,
        "units": [len(layer.weight) for layer in layers[:-1]],
        "connections": sum(layer.weight.numel() for layer in layers),
        "before one more epoch": before,
        "accuracy": accuracy(net, test_x, test_y),
    }
    print(json.dumps(told), flush=True)


def one_more_epoch(net):
    """Adam from 3e-4 along a cosine, batches of 128."""
    torch.manual_seed(0)
    order = torch.randperm(len(x)).split(128)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, len(order))
    for batch in order:
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimiser.step()
        schedule.step()
    return net.eval()


def by_prune(net, ratio):
    """Rows of least norm set to zero with their biases, then removed exactly."""
    for layer in hidden(net):
        prune.ln_structured(layer, "weight", ratio, n=2, dim=0)
        prune.remove(layer, "weight")
        with torch.no_grad():
            layer.bias[(layer.weight == 0).all(1)] = 0.0
    return shrink(net, x[:2000]).model


def by_torch_pruning(net, ratio):
    """Its own magnitude pruner with its own grouped importance."""
    torch_pruning.pruner.MagnitudePruner(
        net,
        x[:1],
        importance=torch_pruning.importance.GroupMagnitudeImportance(p=2),
        pruning_ratio=ratio,
        ignored_layers=[net[-1]],
    ).step()
    return net


if __name__ == "__main__":
    plain, penalised = (loaded(path) for path in sys.argv[1:3])
    said("plain", 0, plain)
    said("penalty and shrink", None, shrink(penalised, x).model)
    for ratio in (0.5, 0.7, 0.8, 0.9, 0.95):
        for how, smaller in (("prune", by_prune), ("torch-pruning", by_torch_pruning)):
            small = smaller(deepcopy(plain), ratio)
            before = accuracy(small, test_x, test_y)
            said(how, ratio, one_more_epoch(small.train()), before)
