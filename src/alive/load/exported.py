"""A program of torch.export (.pt2) as a module whose activations are calls that can be watched.

The graph is built here, from its JSON, and not by torch.export.load, which runs code that it finds in the file: as
guards, as sizes that are parsed by evaluating them, as names of any function that torch can reach, and as pickles.
"""

from __future__ import annotations

import json
import keyword
import operator
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from ..errors import AliveError, reason
from ..gate import Allowance
from ..torch_private import schema_of
from . import BATCH_SIZE
from .archive import DTYPES, STRIDED, Archive, Damaged, read

AGAIN = "Export it again: torch.export.save(torch.export.export(model, (x,)), 'model.pt2')"
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
PATH = re.compile(r"\w+(\.\w+)*", re.ASCII)  # of a parameter: features.0.weight
OPERATOR = re.compile(r"torch\.ops\.(aten|quantized_decomposed)\.(\w+)\.(\w+)", re.ASCII)
SAME = "relu6 leaky_relu selu celu gelu silu mish hardswish hardtanh softplus prelu threshold rrelu"
PLAINLY = (
    "relu relu_ clamp clamp_min clamp_max maximum minimum where mul add sub abs neg gt ge lt le masked_fill sigmoid"
)
CALLS: dict[str, Callable[..., Any]] = {
    **{name: getattr(F, name) for name in SAME.split()},
    **{name: getattr(torch, name) for name in PLAINLY.split()},
}
OPERATION = type(torch.ops.aten.relu.default)
LARGEST = 2**63  # of a size; a small file could make a number that fills the memory, by squaring it again and again


def _of_sizes(name: str) -> Callable[..., Any]:
    """An operator for sizes alone: it would repeat a text, or format it, as long as it is told."""
    call = getattr(operator, name)

    def on_sizes(*sizes: Any) -> Any:
        found = call(*sizes) if not any(isinstance(size, str | list | tuple) for size in sizes) else None
        if found is None or (isinstance(found, int) and not -LARGEST <= found < LARGEST):
            raise AliveError(f"the program computes no size: {name} of {' and '.join(repr(s)[:40] for s in sizes)}")
        return found

    on_sizes.__name__ = on_sizes.__qualname__ = f"{name}_of_sizes"
    return on_sizes


AS_THEY_ARE = "eq ne le ge lt gt and_ or_ getitem"
COUNTED = "neg pos mul add sub floordiv mod truediv"
SIZES: dict[str, Callable[..., Any]] = {
    **{f"_operator.{name}": getattr(operator, name) for name in AS_THEY_ARE.split()},
    **{f"_operator.{name}": _of_sizes(name) for name in COUNTED.split()},
    **{f"torch.sym_{name}": getattr(torch, f"sym_{name}") for name in ("not", "int", "float", "max", "min", "ite")},
}
# Of these torch does not check that the numbers they read and write are those of their tensors.
UNSAFE = re.compile(r"_reshape_alias|_?resize\w*|set_\w*|\w*sparse\w*|_nested\w*|\w*jagged\w*|_coalesced_", re.ASCII)
ASSERTS = ("_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size")
# Operations on a part of the graph: the part is built as the whole is.
WITH_PARTS = {f"torch.ops.higher_order.{name}" for name in ("wrap_with_set_grad_enabled", "wrap_with_autocast", "cond")}
FORMATS = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d, 4: torch.preserve_format}


def from_exported(path: str | PathLike[str]) -> nn.Module:
    """The network in a .pt2 file. Nothing in the file is run but operations of torch on tensors.

    Pickles, compiled parts, objects of one's own and operations that torch does not bring along are refused. What
    torch.export notes about sizes that it allows is not checked: operations say themselves where a size does not fit.

    >>> import tempfile
    >>> from alive.surgery import to_exported
    >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> x = torch.randn(5, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = from_exported(to_exported(net, f"{folder}/net.pt2", x).path)
    >>> torch.equal(again(x), net(x))
    True
    """
    file = Path(path)
    try:
        with zipfile.ZipFile(file) as archive:
            return _program(read(archive, Allowance(file)))
    except OSError as error:
        raise AliveError(f"cannot read {file}: {error.strerror or error}", "Correct the path") from None
    except Damaged as error:
        raise AliveError(f"{file} {error}", AGAIN) from None
    except AliveError:
        raise
    except Exception as error:  # a file can be wrong in as many ways as it has parts
        raise AliveError(f"{file} is no program of torch.export, or is damaged: {reason(error)[:200]}", AGAIN) from None


def _program(archive: Archive) -> fx.GraphModule:
    whole = archive.graph["graph_module"]
    root, signature = nn.Module(), whole["signature"]
    graph = fx.Graph()
    reader = _Reader(root, graph)
    calls = next((c["signature"] for c in whole["module_call_graph"] if c["fqn"] == "" and c["signature"]), None)
    inputs = _inputs(graph, signature["input_specs"], calls)
    for spec in signature["input_specs"]:
        _enter(reader, archive.tensors, spec, inputs)
    reader.run(whole["graph"])
    results = [result for spec in signature["output_specs"] for result in _results(reader, spec)]
    graph.output(_nest(_treespec(calls["out_spec"]), iter(results)) if calls else tuple(results))
    program = fx.GraphModule(root, graph, class_name="Program")
    program.meta[BATCH_SIZE] = _batch_size(whole)
    return program


def _batch_size(whole: Mapping[str, Any]) -> int | None:
    """How many points the program takes at once, where it was exported for so many alone."""
    given = [spec["user_input"]["arg"] for spec in whole["signature"]["input_specs"] if "user_input" in spec]
    first = next((arg["as_tensor"]["name"] for arg in given if "as_tensor" in arg), None)
    sizes = whole["graph"]["tensor_values"][first]["sizes"] if first is not None else ()
    return next((size["as_int"] if isinstance(size.get("as_int"), int) else None for size in sizes), None)


def _inputs(graph: fx.Graph, specs: list[dict[str, Any]], calls: Mapping[str, Any] | None) -> Iterator[Any]:
    """One placeholder for each argument of the program; gives the tensors in them, in the order torch counts them."""
    given = [_name_of(spec) for spec in specs if "user_input" in spec or "constant_input" in spec]
    if calls is None:
        return iter([graph.placeholder(_name(name)) for name in given])
    positional, named = _treespec(calls["in_spec"])["children_spec"]
    arguments = positional["children_spec"] + named["children_spec"]
    names = calls.get("forward_arg_names") or []
    if len(set(names) - {"self"}) < len(names):
        raise Damaged(f"takes inputs by the names {', '.join(map(str, names))[:80]}, which cannot be told apart")
    if len(names) != len(arguments):
        names = given if len(given) == len(arguments) else [f"arg_{n}" for n in range(len(arguments))]
    placed = [(graph.placeholder(_name(name)), spec) for name, spec in zip(names, arguments, strict=True)]
    return iter([leaf for node, spec in placed for leaf in _leaves(node, spec)])


def _leaves(node: fx.Node, spec: Mapping[str, Any]) -> Iterator[fx.Node]:
    """The tensors in one argument."""
    if spec["type"] is None:
        yield node
        return
    if spec["type"] not in ("builtins.tuple", "builtins.list", "builtins.dict"):
        raise Damaged(f"takes a {spec['type']!r:.80} as input, which is not read here")
    keys = range(len(spec["children_spec"])) if spec["type"] != "builtins.dict" else json.loads(spec["context"])
    for key, child in zip(keys, spec["children_spec"], strict=True):
        if not isinstance(key, str | int):
            raise Damaged(f"takes an input by the key {key!r:.80}")
        yield from _leaves(node.graph.call_function(operator.getitem, (node, key)), child)


def _treespec(text: str) -> Any:
    """How inputs or outputs are nested."""
    return json.loads(text)[1]


def _nest(spec: Mapping[str, Any], leaves: Iterator[Any]) -> Any:
    """Results as they were nested; records of other classes become dicts or tuples."""
    if spec["type"] is None:
        return next(leaves)
    children = [_nest(child, leaves) for child in spec["children_spec"]]
    match spec["type"]:
        case "builtins.dict":
            return dict(zip(json.loads(spec["context"]), children, strict=True))
        case "builtins.list":
            return children
        case "builtins.tuple":
            return tuple(children)
    names = json.loads(spec["context"] or "null")
    if isinstance(names, list) and len(names) == len(children) and all(isinstance(name, str) for name in names):
        return dict(zip(names, children, strict=True))
    return tuple(children)


def _enter(reader: _Reader, tensors: Mapping[str, Tensor], spec: Mapping[str, Any], inputs: Iterator[Any]) -> None:
    """One input of the graph: what the caller gives, a parameter, a buffer or a constant."""
    (kind, what), *more = spec.items()
    if more or kind not in ("user_input", "constant_input", "parameter", "buffer", "tensor_constant"):
        raise Damaged(f"needs a {kind!r:.80}, which is not read here")
    if kind in ("user_input", "constant_input"):
        reader.values[_name_of(spec)] = next(inputs)
        return
    path = what[f"{kind}_name"]
    value = tensors[path]
    if kind == "parameter":
        value = nn.Parameter(value, requires_grad=value.is_floating_point() or value.is_complex())
    reader.values[what["arg"]["name"]] = reader.attribute(path, value)


def _name_of(spec: Mapping[str, Any]) -> str:
    """What the graph calls an input."""
    if "constant_input" in spec:
        return str(spec["constant_input"]["name"])
    (value,) = spec["user_input"]["arg"].values()
    return str(value.get("name", value.get("as_name")) if isinstance(value, dict) else value)


def _results(reader: _Reader, spec: Mapping[str, Any]) -> Iterator[Any]:
    """What an output of the graph is: a result, or a value to be written back into a buffer or an input."""
    (kind, what), *more = spec.items()
    if more or kind not in ("user_output", "loss_output", "buffer_mutation", "user_input_mutation"):
        raise Damaged(f"makes a {kind!r:.80}, which is not read here")
    if kind in ("user_output", "loss_output"):
        arg = what["arg"]
        yield reader.value(arg if kind == "user_output" else {"as_tensor": arg})
        return
    into = what.get("buffer_name") or what["user_input_name"]
    target = reader.values[into] if kind == "user_input_mutation" else reader.graph.get_attr(_path(into))
    reader.graph.call_function(torch.ops.aten.copy_.default, (target, reader.values[what["arg"]["name"]]))


class _Reader:
    """Builds a graph, operation by operation; knows the value of every name."""

    def __init__(self, root: nn.Module, graph: fx.Graph) -> None:
        self.root, self.graph = root, graph
        self.values: dict[str, Any] = {}
        self._parts = 0

    def attribute(self, path: str, value: Tensor | nn.Module) -> fx.Node:
        """Keep a tensor, or a part, in the module of its path."""
        *steps, last = _path(path).split(".")
        module = self.root
        for step in steps:
            if step not in module._modules:
                module.add_module(step, nn.Module())
            module = module.get_submodule(step)
        if isinstance(value, nn.Module):
            module.add_module(last, value)
        elif isinstance(value, nn.Parameter):
            module.register_parameter(last, value)
        else:
            module.register_buffer(last, value)
        return self.graph.get_attr(path)

    def run(self, graph: Mapping[str, Any]) -> None:
        """Add the operations of a graph."""
        for node in graph["nodes"]:
            args = [self.value(given["arg"]) for given in node["inputs"] if given.get("kind", 1) != 2]
            named = {
                _name(given["name"]): self.value(given["arg"]) for given in node["inputs"] if given.get("kind") == 2
            }
            made = self.graph.call_function(*_spell_out(_function(node["target"]), args, named))
            self._note(node, made)

    def _note(self, node: Mapping[str, Any], made: fx.Node) -> None:
        """Give what an operation made the names that the file calls it by."""
        outputs = node["outputs"]
        if len(outputs) == 1 and node["target"] not in WITH_PARTS:
            names = _names(outputs[0])
            if isinstance(names, str):
                self.values[names] = made
                return
        else:
            found = [_names(output) for output in outputs]
            names = [name for each in found for name in ([each] if isinstance(each, str) else each)]
            if len(names) == 1 and node.get("is_hop_single_tensor_return"):
                self.values[names[0]] = made
                return
        for number, name in enumerate(names):
            if name:
                self.values[name] = self.graph.call_function(operator.getitem, (made, number))

    def value(self, arg: Mapping[str, Any]) -> Any:
        """What an argument of the file stands for."""
        (kind, value), *more = arg.items()
        if more:
            raise Damaged("has an argument of two kinds")
        match kind:
            case "as_none":
                return None
            case "as_tensor":
                return self.values[value["name"]]
            case "as_tensors":
                return [self.values[one["name"]] for one in value]
            case "as_optional_tensor":
                return self.value(value)
            case "as_optional_tensors" | "as_nested_tensors":
                return [self.value(one if isinstance(one, dict) else {"as_tensors": one}) for one in value]
            case "as_sym_int" | "as_sym_bool" | "as_sym_float":
                return self._size(value)
            case "as_sym_ints" | "as_sym_bools" | "as_sym_floats":
                return [self._size(one) for one in value]
            case "as_graph":
                return self._part(value["graph"])
            case _:
                return _plain(kind, value)

    def _size(self, value: Mapping[str, Any]) -> Any:
        (kind, what), *_ = value.items()
        return self.values[what] if kind == "as_name" else _plain(kind, what)

    def _part(self, graph: Mapping[str, Any]) -> fx.Node:
        """A part of the graph that an operation runs, as a module."""
        part = _Reader(nn.Module(), fx.Graph())
        for given in graph["inputs"]:
            name = _names(given)
            part.values[name] = part.graph.placeholder(_name(name))
        part.run(graph)
        results = [part.value(output) for output in graph["outputs"]]
        part.graph.output(results[0] if graph.get("is_single_tensor_return") else tuple(results))
        self._parts += 1
        return self.attribute(f"part_{self._parts}", fx.GraphModule(part.root, part.graph, class_name="Part"))


def _plain(kind: str, value: Any) -> Any:
    """Numbers, text, and kinds of tensors."""
    match kind:
        case "as_int" | "as_bool" | "as_string":
            belongs = {"as_int": int, "as_bool": bool, "as_string": str}[kind]
            if type(value) is not belongs:
                raise Damaged(f"has {value!r:.80} where a {belongs.__name__} belongs")
            return value
        case "as_float":
            return float(value)  # infinity and NaN are written as text
        case "as_ints" | "as_bools" | "as_strings" | "as_floats" | "as_int_lists" | "as_float_lists":
            return [_plain(kind[:-1] if "lists" not in kind else kind[:-6] + "s", one) for one in value]
        case "as_scalar_type":
            return DTYPES[value]
        case "as_memory_format":
            return FORMATS[value]
        case "as_layout" if value == STRIDED:
            return torch.strided
        case "as_device":
            return torch.device("cpu")  # where the tensors of the file are
        case "as_complex":
            return complex(value["real"], value["imag"])
    raise Damaged(f"has an argument of a kind that is not read here: {kind!r:.80}")


def _names(output: Mapping[str, Any]) -> Any:
    """The name of a result, or the names in a list of results."""
    (kind, value), *_ = output.items()
    match kind:
        case "as_tensor":
            return value["name"]
        case "as_tensors":
            return [one["name"] for one in value]
        case "as_optional_tensors":
            return [one["as_tensor"]["name"] if "as_tensor" in one else "" for one in value]
        case "as_sym_int" | "as_sym_bool" | "as_sym_float":
            return value.get("as_name", "")
        case "as_none":
            return ""
    raise Damaged(f"has a result of a kind that is not read here: {kind!r:.80}")


def _function(target: str) -> Callable[..., Any]:
    """An operation of torch by its name; of what else torch can reach by name there is no need."""
    if target in SIZES:
        return SIZES[target]
    if target in WITH_PARTS:
        return getattr(torch.ops.higher_order, target.rpartition(".")[2])  # type: ignore[no-any-return]
    told = OPERATOR.fullmatch(target)
    if told is None:
        raise Damaged(f"calls {target!r:.80}, which is no operation of torch on tensors")
    if told[1] == "quantized_decomposed":
        import_module("torch.ao.quantization.fx._decomposed")  # which registers them
    found: Callable[..., Any] = getattr(getattr(getattr(torch.ops, told[1]), told[2]), told[3])
    if not isinstance(found, OPERATION) or UNSAFE.fullmatch(told[2]):
        raise Damaged(f"calls {target}, which is not safe for what is read from a file")
    schema = schema_of(found)
    if any(argument.name == "filename" for argument in schema.arguments):
        raise Damaged(f"calls {target}, which opens files")
    given = [*schema.arguments, *schema.returns]
    if told[2] not in ASSERTS and not any("Tensor" in str(each.type) for each in given):
        raise Damaged(f"calls {target}, which is no operation on tensors")
    return found


def _name(name: str) -> str:
    """A name that can stand in code."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None or keyword.iskeyword(name):
        raise Damaged(f"has a name that is none: {name!r:.80}")
    return name


def _path(path: str) -> str:
    if not isinstance(path, str) or PATH.fullmatch(path) is None:
        raise Damaged(f"has a parameter whose name is none: {path!r:.80}")
    return path


def _spell_out(
    function: Callable[..., Any], args: list[Any], named: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """An operator of aten as the function of torch with the same arguments, where it may be a one-sided activation."""
    known = re.fullmatch(r"aten\.(\w+)\.\w+", str(function))
    name = known[1] if known is not None else ""
    if name == "elu":
        scales = [*args[2:], *(named.get(key, 1) for key in ("scale", "input_scale") if key in named)]
        if all(operator.eq(scale, 1) for scale in scales):
            return F.elu, tuple(args[:2]), {}
    if name in CALLS and "generator" not in named:
        return CALLS[name], tuple(args), named
    return function, tuple(args), named
