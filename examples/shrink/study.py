"""Shrink networks that train.py made: python study.py 800,800 mnist.safetensors [--box 0,1] [--time-limit 300]

Observed on the 60,000 training images, the 10,000 test images held out; or certified over a box. Prints a line of JSON.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from train import accuracy, network, pixels

from alive.surgery import save_shrunk, shrink
from alive.surgery.shrink.page import Source, page

parser = argparse.ArgumentParser()
parser.add_argument("widths")
parser.add_argument("weights")
parser.add_argument("--box")
parser.add_argument("--time-limit", type=float, default=300.0)
parser.add_argument("--out")
parser.add_argument("--html")
asked = parser.parse_args()

torch.set_num_threads(1)
net = network([int(w) for w in asked.widths.split(",")]).eval()
net.load_state_dict(load_file(asked.weights))
x, _, test_x, test_y = pixels()
box = asked.box if asked.box in (None, "data") else tuple(float(end) for end in asked.box.split(","))
done = shrink(net, x, box=box, held_out=test_x, time_limit=asked.time_limit)
if asked.out:
    save_shrunk(done.model, asked.out)
if asked.html:
    source = Source(model=f"784-{asked.widths}-10, {asked.weights}", data="MNIST")
    Path(asked.html).write_text(page(done.report, f"MNIST {asked.widths}, shrunk", source))
report = done.report
print(
    json.dumps(
        {
            "weights": asked.weights,
            "ground": report.ground,
            "box": asked.box,
            "accuracy": [accuracy(net, test_x, test_y), accuracy(done.model, test_x, test_y)],
            "layers": [[layer.units, layer.units_left, layer.in_words] for layer in report.layers],
            **{name: [before, after] for name, before, after in report.sizes},
            "differences": [str(report.on_data), str(report.held_out)],
            "proofs": report.to_dict()["proofs"],
            "seconds": round(report.seconds, 1),
        }
    )
)
