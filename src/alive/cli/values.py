"""The values that options take, as they stand in help and completion: known here without importing torch.

A test holds each to the registry it repeats. Names that installed packages add are among them.
"""

from __future__ import annotations

from ..registry import names_added

DATA: tuple[str, ...] = ("moons", "digits", "friedman", *names_added("alive.data"))
FILES: tuple[str, ...] = ("npz", "npy", "safetensors", "pt", "csv", "parquet", *names_added("alive.formats"))
INITS: tuple[str, ...] = (
    *("glorot", "kaiming", "torch", "zeros", "mirrored"),
    *(
        "looks-linear",
        "near-identity",
        "orthogonal",
        "delta-orthogonal",
        "uniform-orthogonal",
        "mean-orthogonal",
        "deterministic",
    ),
    *names_added("alive.starts"),
)
SPLITS = ("train", "test", "all")
MODES = ("U", "P", "UP", "L")
AGGREGATES = ("meansq", "sumsq", "sum", "norm", "mean", "balanced")
CONVS = ("channel", "position")
SHAPES = ("constant", "linear", "cosine")
FORMATS = ("table", "json", "sarif", "junit", "markdown")
LOSSES = ("ce", "bce", "mse")
OPTIMISERS = ("adam", "sgd")
RULES = (*(f"ALV0{n:02}" for n in range(1, 18)), *(f"ALV10{n}" for n in range(1, 7)), *names_added("alive.findings"))
SCHEMAS = ("census", "shrink")
