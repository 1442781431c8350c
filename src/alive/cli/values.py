"""The values that options take, as they stand in help and completion: known here without importing torch.

A test holds each to the registry it repeats. Names that installed packages add are among them.
"""

from __future__ import annotations

from ..registry import added

IMAGES = ("mnist", "fashion-mnist", "cifar10", "cifar100")
DATA: tuple[str, ...] = ("moons", "digits", "friedman", "mnist", "mnist-14", *IMAGES[1:])
DATA += added("alive.data")
INITS: tuple[str, ...] = (
    *("glorot", "kaiming", "torch", "zeros", "mirrored"),
    *("looks-linear", "orthogonal", "delta-orthogonal", "uniform-orthogonal", "mean-orthogonal", "deterministic"),
    *added("alive.starts"),
)
SPLITS = ("train", "test", "all")
MODES = ("U", "P", "UP", "L")
AGGREGATES = ("meansq", "sumsq", "sum", "norm", "mean", "balanced")
SHAPES = ("constant", "linear", "cosine")
FORMATS = ("table", "json", "sarif", "junit", "markdown")
LOSSES = ("ce", "bce", "mse")
OPTIMISERS = ("adam", "sgd")
SCALES = ("quick", "middle", "paper")
ARCHITECTURES = ("dense", "keras_same")
WHERE = ("local", "ray")
BENCHMARKS = ("penalty", "census", "fleet", "farkas", "folding", "shrink", "pipeline", "thin", "lab", "detectors")
EXPERIMENTS: tuple[str, ...] = (
    *("000-T1", "000-T2", "000-T4", "000-Fig5"),
    *("001-Fig1", "001-Fig2", "001-Fig3", "001-Fig4", "001-Fig5", "001-T1", "001-Fig9", "001-Fig12"),
    *("002-Fig1", "002-Fig2", "002-Fig3", "002-Fig4", "002-Fig5", "002-T2"),
    "003-T2",
    *("004-T1", "004-Fig2", "004-Fig3", "004-Fig4"),
    *("depth-record", "depth-images", "atlas", "atlas-images", "rivals", "adam-epsilon", "one-setting"),
    *("sae", "continual", "drift", "codebook", "demo"),
    *added("alive.experiments"),
)
PATIENTS = (
    *("thin-deep", "born-dead", "deep-conv", "deep-text", "deep-regression", "deep-gelu"),
    *("negative-bias", "zeros", "constant", "unit-normal", "overflow", "residual"),
    *("large-inputs", "off-centre", "mixed-columns"),
    *("died", "dead-code", "fast-sgd", "not-a-number", "fast-adam", "drowned"),
)
CURES = (
    *("mirrored", "jumpstart", "mirrored, jumpstart", "batch norm", "skips", "farkas", "rate/10", "standardise"),
    *("kaiming", "glorot", "U sum", "P sum", "UP sum", "U mean", "UP mean", "torch, rate/10"),
    *("kaiming, rate/10", "mirrored, rate/10", "mirrored, UP mean", "standardise, kaiming"),
)
RULES = (*(f"ALV0{number:02}" for number in range(1, 17)), *(f"ALV10{number}" for number in range(1, 7)))
EXPORTS = ("csv", "parquet", "png", "svg", "pdf")
SCHEMAS = ("census", "shrink")
