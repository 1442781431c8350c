"""The values that options of the laboratory take, known here without importing torch."""

from __future__ import annotations

from alive.registry import names_added

IMAGES = ("mnist", "fashion-mnist", "cifar10", "cifar100")
TABLES = "tables"
GOT = (*IMAGES, TABLES)  # what `alive data get` gets
SCALES = ("quick", "middle", "paper")
ARCHITECTURES = ("dense", "keras_same")
WHERE = ("local", "ray")
BENCHMARKS = (
    "penalty",
    "device",
    "census",
    "fleet",
    "farkas",
    "folding",
    "shrink",
    "pipeline",
    "thin",
    "lab",
    "detectors",
)
EXPERIMENTS: tuple[str, ...] = (
    *("000-T1", "000-T2", "000-T4", "000-Fig5"),
    *("001-Fig1", "001-Fig2", "001-Fig3", "001-Fig4", "001-Fig5", "001-T1", "001-printed", "001-Fig9", "001-Fig12"),
    *("002-Fig1", "002-Fig2", "002-Fig3", "002-Fig4", "002-Fig5", "002-T2"),
    "003-T2",
    *("004-T1", "004-Fig2", "004-Fig3", "004-Fig4"),
    *("depth-record", "depth-images", "atlas", "atlas-images", "rivals", "adam-epsilon", "one-setting"),
    *("farkas-why", "tables", "sae", "continual", "drift", "agents", "language", "lens", "codebook", "demo"),
    *names_added("alive.experiments"),
)
PATIENTS = (
    *("thin-deep", "born-dead", "deep-conv", "deep-text", "deep-regression", "deep-gelu"),
    *("negative-bias", "zeros", "constant", "unit-normal", "overflow", "residual"),
    *("large-inputs", "off-centre", "mixed-columns"),
    *("died", "dead-code", "fast-sgd", "not-a-number", "fast-adam", "collapsed", "deep-encoder", "drowned"),
)
EXPORTS = ("csv", "parquet", "png", "svg", "pdf")
