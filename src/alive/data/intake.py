"""Whatever people call data, as batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, TensorDataset

from ..errors import AliveError
from .arrays import number_classes, whole
from .batches import SIZE, Batches, chain, columns, items, loader, stream, together
from .calls import TARGETS, Asked, run
from .convert import as_tensor, each, inner, is_array, is_row, precision, tensor
from .files import Contents, contents, is_known
from .record import Data
from .sets import DATA, load


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """Training points, then test points: whatever each is."""

    parts: tuple[Any, ...]


def read(data: Any, model: nn.Module, point_axis: int | None = 0) -> Batches:
    """The batches of whatever people call data, for a model; what is none gets one sentence.

    >>> [len(x) for x, y in read(([[0.0], [1.0], [2.0]], [0, 1, 1]), nn.Linear(1, 1))]
    [3]
    """
    return replace(_read(data, model, point_axis), model=model)


def materialise(
    model: nn.Module, data: Any, forward: Callable[[nn.Module, Any], Any] | None = None, point_axis: int | None = 0
) -> nn.Module:
    """The same model; lazy layers get their weights by a pass over the first batch, in eval mode."""
    lazy = (nn.UninitializedParameter, nn.UninitializedBuffer)
    if any(isinstance(held, lazy) for held in (*model.parameters(), *model.buffers())):
        was = model.training
        run(model.eval(), next(iter(read(data, model, point_axis))), 0, forward)
        model.train(was)
    return model


def _read(data: Any, model: nn.Module, point_axis: int | None) -> Batches:
    if isinstance(data, Batches):
        return data
    if isinstance(data, Both):
        return chain([read(part, model, point_axis) for part in data.parts])
    dtype, axis = precision(model), point_axis or 0
    if isinstance(data, str | PathLike):
        data = by_name(data)
    if isinstance(data, Data):
        _expect_first(point_axis, f"the points of {data.name}")
        return _of_record(data)
    if _is_frame(data):
        data = Contents("table", _table(data), is_table=True)
    if isinstance(data, Contents):
        train = each(data.train, _ids) if data.is_table and _looks_up(model) else data.train
        return _read(train, model, point_axis)
    if isinstance(data, list) and data and _is_example(data[0], Asked.of(model)):
        return _items(data, point_axis, dtype)
    if is_array(data):
        data = tensor(data, dtype)
    if isinstance(data, tuple):
        data = tuple(_rows(part, model, is_input=not place) for place, part in enumerate(data))
    if isinstance(data, Tensor | Mapping) and point_axis is None:
        return stream([data])
    if isinstance(data, Tensor):
        return columns(data, axis, data.shape[axis] if data.ndim > axis else 0)
    if isinstance(data, Mapping):
        return _read_mapping(data, axis, dtype)
    if isinstance(data, DataLoader):
        known = data.batch_size and isinstance(data.sampler, SequentialSampler | RandomSampler)
        return loader(data) if known and hasattr(data.dataset, "__len__") else stream(data)
    if isinstance(data, tuple) and point_axis is not None:
        return _tuple(data, Asked.of(model).inputs, axis, dtype) or stream(data)
    return _others(data, Asked.of(model), point_axis, dtype)


def _of_record(data: Data) -> Batches:
    """The training points of a record, with their targets."""
    given, y = data.parts[0]

    def batch(part: tuple[Any, ...]) -> Any:
        found = (data.pixels(part[0]), *part[1:-1])
        return (dict(zip(data.names, found, strict=True)), part[-1]) if data.names else (*found, part[-1])

    return columns((*given, y), 0, len(y), batch)


def by_name(source: str | PathLike[str], target: str | None = None) -> Any:
    """A data set by name, or the contents of a file."""
    is_file = str(source) not in DATA and is_known(source)
    return contents(source, target=target) if is_file else load(source)


def _looks_up(model: nn.Module) -> bool:
    """Whether a model has tables that whole numbers look up rows of."""
    return any(isinstance(module, nn.Embedding | nn.EmbeddingBag) for module in model.modules())


def _ids(column: Any) -> Any:
    """A column of whole numbers as such."""
    return whole(column) if isinstance(column, np.ndarray) else None


def _others(data: Any, asked: Asked, point_axis: int | None, dtype: torch.dtype) -> Batches:
    """Data sets of torch and their like, lists of examples, and anything else that yields batches."""
    if isinstance(data, TensorDataset) and point_axis == 0 and len({len(x) for x in data.tensors}) == 1:
        return columns(data.tensors, 0, len(data))
    if isinstance(data, Dataset) or _is_set(data):
        return _items(data, point_axis, dtype)
    if isinstance(data, Iterable) and not isinstance(data, bytes | type):
        return stream(data)
    given = f"the class {data.__name__}" if isinstance(data, type) else type(data).__name__
    raise AliveError(
        f"expected data, got {given}",
        "Pass a tensor, arrays, (inputs, targets), a mapping, a data set, a DataLoader or any iterable of batches",
    )


def _items(data: Any, point_axis: int | None, dtype: torch.dtype) -> Batches:
    """A data set of items; where each tensor is one point, each item is a batch."""
    is_stream = isinstance(data, IterableDataset)
    if not is_stream and not hasattr(data, "__len__"):
        raise AliveError(f"the data set {type(data).__name__} has no __len__", "Give it one, or pass a DataLoader")
    if point_axis is None:
        return stream(data) if is_stream else Batches(lambda size: (data[number] for number in range(len(data))))
    _expect_first(point_axis, "items of a data set, put together,")
    if is_stream:
        return stream(DataLoader(data, batch_size=SIZE, collate_fn=partial(together, dtype=dtype)))
    return items(data, dtype)


def _expect_first(point_axis: int | None, what: str) -> None:
    if point_axis != 0:
        raise AliveError(
            f"{what} lie on axis 0, and point_axis is {point_axis}",
            "Leave it out, or pass a DataLoader whose collate_fn puts the points there",
        )


def _is_set(data: Any) -> bool:
    """Whether it is like a data set of torch: items by number, and no sequence of batches."""
    known = (
        hasattr(data, "__len__") and hasattr(data, "__getitem__") and not is_row(data) and not isinstance(data, type)
    )
    return known and (hasattr(data, "__getitems__") or not hasattr(data, "__iter__"))


def _is_example(item: Any, asked: Asked) -> bool:
    """Whether it is one example: its label is a number, where a batch has a tensor of them."""
    if isinstance(item, Mapping):
        return any(_is_number(item.get(name)) for name in TARGETS if name not in asked.names)
    is_pair = is_row(item) and len(item) == 2 and asked.inputs == 1
    return is_pair and _is_number(item[1]) and not _is_number(item[0])


def _is_number(value: Any) -> bool:
    """Whether it is one number, also as a tensor or array without axes."""
    return isinstance(value, int | float) or (hasattr(value, "shape") and value.shape == ())


def _is_frame(data: Any) -> bool:
    """Whether it is a data frame, of pandas, polars or another library."""
    return hasattr(data, "columns") and hasattr(data, "to_numpy")


def _rows(part: Any, model: nn.Module, *, is_input: bool) -> Any:
    """A data frame that is one part of (x, y), as an array: inputs are real numbers, unless the model looks them up."""
    if not _is_frame(part):
        return part
    columns = {str(name): np.asarray(part[name]) for name in part.columns}
    if len(columns) == 1 and not is_input:
        return _classes(*columns.values())
    x = _stack(columns)
    return _ids(x) if _looks_up(model) and is_input else x


def _read_mapping(data: Mapping[str, Any], axis: int, dtype: torch.dtype) -> Batches:
    """A whole data set by name, such as a tokeniser gives it."""
    try:
        whole = {key: tensor(part, dtype) if is_array(part) else part for key, part in data.items()}
    except AliveError as error:
        raise AliveError(f"in a mapping of the whole data {error.cause}", error.cure) from None
    strange = [
        key for key, part in whole.items() if not (isinstance(part, Tensor | bool | int | float) or part is None)
    ]
    lengths = _lengths(whole, axis)
    if strange or not lengths:
        raise AliveError(
            f"the mapping's {strange[0]!r} is a {type(whole[strange[0]]).__name__}"
            if strange
            else "the mapping is empty",
            "Give tensors or arrays, one row a point, or choose a part of it; put a single batch in a list: [batch]",
        )
    return _columns(whole, lengths, axis)


def _lengths(whole: Mapping[Any, Any], axis: int) -> dict[Any, int]:
    """How many points each tensor holds, by its name."""
    tensors = {key: part for key, part in whole.items() if isinstance(part, Tensor) and part.ndim}
    return {key: part.shape[axis if part.ndim > axis else 0] for key, part in tensors.items()}


def _columns(whole: Any, lengths: Mapping[Any, int], axis: int) -> Batches:
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise AliveError(
            f"the parts of the data have different numbers of points: {told}",
            "Give each of them one row a point; put a single batch in a list: [batch]",
        )
    return columns(whole, axis, next(iter(lengths.values())))


def _tuple(data: tuple[Any, ...], inputs: int, axis: int, dtype: torch.dtype) -> Batches | None:
    """(x, y), (a, b, y) or ((a, b), y), whole; None where the tuple is one of batches."""
    data = tuple(tensor(part, dtype) if is_array(part) else part for part in data)
    if len(data) == 2 and isinstance(data[1], Tensor) and (isinstance(data[0], Mapping) or is_row(data[0])):
        data = (as_tensor(data[0], dtype), data[1])
        found = inner(data)
        return _columns(data, _lengths(dict(enumerate(found)), axis), axis) if len(found) > 1 else None
    if not data or not all(isinstance(part, Tensor) for part in data):
        return None
    lengths = _lengths(dict(enumerate(data)), axis)
    if len(data) == 1 or (inputs > 1 and len(data) >= inputs):
        return _columns(data, lengths, axis)
    if len(data) == 2:
        return _pair(*data, axis)
    is_table = len({part.ndim for part in data}) > 1 and len(set(lengths.values())) == 1
    return _columns(data, lengths, axis) if is_table and inputs == 1 else None


def _pair(inputs: Tensor, targets: Tensor, axis: int) -> Batches | None:
    """(inputs, targets); two tensors of different lengths are two batches, as x.split(6) makes them."""
    points = inputs.shape[axis] if inputs.ndim > axis else 0
    if inputs.ndim <= axis or (points in targets.shape and not follows(inputs, targets)):
        return columns((inputs, targets), axis, points)
    if inputs.ndim == targets.ndim:
        return None
    raise AliveError(
        f"there are {points} inputs {list(inputs.shape)} and targets {list(targets.shape)}", "Give as many of each"
    )


def follows(a: Tensor, b: Tensor) -> bool:
    """Whether b lies right behind a as rows of one tensor, as the parts of x.split(5) do."""
    if not (a.ndim == b.ndim and a.stride() == b.stride() and a.shape[1:] == b.shape[1:]):
        return False
    same = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    return same and b.storage_offset() == a.storage_offset() + a.stride(0) * len(a)


def _table(frame: Any) -> Any:
    """A data frame as inputs and, where a column is named so, targets."""
    columns = {str(name): np.asarray(frame[name]) for name in frame.columns}
    targets = [name for name in columns if name.lower() in TARGETS]
    if len(targets) > 1 or len(columns) == len(targets):
        names = ", ".join(columns) or "no columns"
        raise AliveError(
            f"the table has {names}, of which {len(targets)} look like targets",
            "Keep inputs, and one of targets at most",
        )
    x = _stack({name: column for name, column in columns.items() if name not in targets})
    return (x, _classes(columns[targets[0]])) if targets else x


def _classes(column: np.ndarray) -> Any:
    """A column of targets: numbers as they are, words numbered."""
    return column if _is_numeric(column) else number_classes(column.astype(str))


def _stack(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Columns of numbers, side by side; one of anything else is refused."""
    strange = [name for name, column in columns.items() if not _is_numeric(column)]
    if strange:
        raise AliveError(
            f"column {strange[0]!r} of the table holds no numbers", "Leave it out, or turn it into numbers"
        )
    return np.stack([column.astype(np.float64) for column in columns.values()], 1)


def _is_numeric(column: np.ndarray) -> bool:
    return column.dtype.kind in "biuf" and column.ndim == 1
