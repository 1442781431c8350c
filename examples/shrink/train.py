"""Train a dense ReLU network on MNIST so that much of it can be removed: python train.py 800,800 --l1 1e-4

Pixels go from 0 to 1. --l1 adds that times the sum of all absolute weights to the loss (Serra, Kumar & Ramalingam
2021); --rows is structured: after each step every row of a hidden layer, with its bias, is made that much shorter, and
a row of no length is a unit that is gone. Writes the weights, and prints a line of JSON.
"""

import argparse
import json
import time
from itertools import pairwise

import torch
from safetensors.torch import save_file
from torch import nn

from alive.data import load


def network(widths):
    """784 pixels, hidden layers of these widths, 10 classes."""
    sizes = [784, *widths]
    layers = [nn.Flatten()]
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 10))


def pixels():
    """Images and labels to train on, and to test."""
    data = load("mnist")
    return data.train_x.float() / 255, data.train_y.long(), data.test_x.float() / 255, data.test_y.long()


def accuracy(net, x, y):
    """The share of images that are told right."""
    with torch.no_grad():
        return float(torch.cat([net(part).argmax(1) for part in x.split(2000)]).eq(y).float().mean())


def shorten(net, by):
    """The proximal step of the sum of the lengths of rows."""
    hidden = [m for m in net if isinstance(m, nn.Linear)][:-1]
    with torch.no_grad():
        for layer in hidden:
            length = (layer.weight.square().sum(1) + layer.bias.square()).sqrt()
            factor = (1 - by / length.clamp(min=1e-12)).clamp(min=0)
            layer.weight *= factor[:, None]
            layer.bias *= factor


def train(widths, l1, rows, epochs, seed):
    """Adam from 1e-3 along a cosine, batches of 128."""
    torch.manual_seed(seed)
    net = network(widths)
    x, y, _, _ = pixels()
    steps = epochs * (len(x) // 128)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(128)[: len(x) // 128]:
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            if l1:
                loss = loss + l1 * sum(p.abs().sum() for p in net.parameters() if p.ndim == 2)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if rows:
                shorten(net, rows * schedule.get_last_lr()[0])
            schedule.step()
    return net


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("widths")
    parser.add_argument("--l1", type=float, default=0.0)
    parser.add_argument("--rows", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="mnist.safetensors")
    asked = parser.parse_args()
    began = time.time()
    net = train([int(w) for w in asked.widths.split(",")], asked.l1, asked.rows, asked.epochs, asked.seed)
    save_file(net.state_dict(), asked.out)
    _, _, x, y = pixels()
    print(json.dumps({**vars(asked), "accuracy": accuracy(net, x, y), "seconds": round(time.time() - began)}))
