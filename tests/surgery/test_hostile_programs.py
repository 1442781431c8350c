""".pt2 files and configurations that would run code, each made as an attacker would: none runs, each says one line."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from alive.errors import AliveError
from alive.load import from_exported

MARK = "ran"
CODE = f"open({MARK!r}, 'w').close()"


class Runs:
    def __reduce__(self):
        return (open, (MARK, "w"))


class Small(nn.Module):
    """Sizes, a constant and a slice, so that there is something of every kind."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        return {"y": torch.relu(self.line(x) * self.scale).reshape(x.shape[0] * 2, 2)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    model = Small().eval()
    shape = ({0: torch.export.Dim("n", min=2, max=99)},)
    file = tmp_path_factory.mktemp("exported") / "net.pt2"
    torch.export.save(torch.export.export(model, (torch.randn(4, 3),), dynamic_shapes=shape), file)
    return model, file.read_bytes()


@pytest.fixture
def program(exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pt2").write_bytes(exported[1])
    return exported[0]


def changed(edit=None, *, entry="models/model.json", more=(), pack=zipfile.ZIP_STORED):
    """A copy of the file with one entry edited as JSON, and more entries behind."""
    with zipfile.ZipFile("net.pt2") as old, zipfile.ZipFile("bad.pt2", "w", pack) as new:
        for name in old.namelist():
            data = old.read(name)
            if edit is not None and name.endswith(entry):
                found = json.loads(data)
                edit(found)
                data = json.dumps(found).encode()
            new.writestr(name, data)
        for name, data in more:
            with pytest.warns(UserWarning, match="Duplicate name") if name in old.namelist() else no_warning():
                new.writestr(name, data)
    return "bad.pt2"


class no_warning:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def graph(found):
    return found["graph_module"]["graph"]


def guards(found):
    found["guards_code"] = [CODE, f"exec({CODE!r}) or True"]


def symbols(found):
    for value in graph(found)["sym_int_values"].values():
        value["as_expr"]["expr_str"] = f"__import__('builtins').{CODE}"


def ranges(found):
    found["range_constraints"] = {f"__import__('builtins').{CODE}": {"min_val": 0, "max_val": None}}


def metadata(found):
    for node in graph(found)["nodes"]:
        node["metadata"] = {"stack_trace": CODE, "nn_module_stack": f"a,{CODE},b", "custom": CODE}


def class_of_input(found):
    entry = found["graph_module"]["module_call_graph"][0]["signature"]
    entry["in_spec"] = entry["in_spec"].replace("builtins.tuple", "subprocess.Popen")


def test_an_untouched_file_gives_what_torch_gives(program):
    x = torch.randn(7, 3)
    again = from_exported(changed())
    assert torch.equal(again(x)["y"], program(x)["y"])
    theirs = torch.export.load("net.pt2").module()
    assert torch.equal(again(x)["y"], theirs(x)["y"])
    assert sorted(dict(again.named_parameters())) == sorted(dict(theirs.named_parameters()))


@pytest.mark.parametrize("edit", [guards, symbols, ranges, metadata, class_of_input])
def test_what_torch_would_evaluate_is_not_even_read(program, tmp_path, edit):
    again = from_exported(changed(edit))
    x = torch.randn(4, 3)
    assert torch.equal(again(x)["y"], program(x)["y"])
    assert not (tmp_path / MARK).exists()


def test_torch_itself_runs_the_guards(program, tmp_path):
    """The danger is real: this is what the file does to torch.export.load in the torch that is tested."""
    with pytest.raises(Exception, match=r"(?s)."):
        torch.export.load(changed(symbols))
    assert (tmp_path / MARK).exists()


def target(name):
    def edit(found):
        graph(found)["nodes"][1]["target"] = name

    return edit


@pytest.mark.parametrize(
    "name",
    [
        *(
            "torch.os.system",
            "torch.load",
            "torch.hub.load",
            "torch.ops.load_library",
            "torch.utils.cpp_extension.load",
        ),
        *("_operator.attrgetter", "_operator.methodcaller", "_operator.pow", "math.factorial", "builtins.exec", "exec"),
        *(
            "torch.ops.aten.from_file.default",
            "torch.ops.aten.relu.default.__class__",
            "torch.ops.aten.__init__.default",
        ),
        *("torch.ops.aten.save.default", "torch.ops.aten.mul.left_t", "torch.ops.aten.ljust.default"),
        *("torch.ops.aten.manual_seed.default", "torch.ops.aten.set_grad_enabled.default", "torch.ops.aten.exit.x"),
        *(
            "torch.ops.aten._reshape_alias.default",
            "torch.ops.aten.set_.source_Tensor",
            "torch.ops.aten.resize_.default",
        ),
        *("torch.ops.aten._sparse_coo_tensor_unsafe.default", "torch.ops.higher_order.while_loop"),
        *("torch.ops.аten.relu.default", "torch.ops.aten.relu.default\n", "torch.ops.prim.exit.default"),
        *("#extension:mine", "torch.ops.higher_order.triton_kernel_wrapper_mutation", "torch.ops.mine.op.default"),
    ],
)
def test_only_operations_on_tensors_are_called(program, tmp_path, name):
    with pytest.raises(AliveError):
        from_exported(changed(target(name)))(torch.randn(4, 3))
    assert not (tmp_path / MARK).exists()


def argument_names(found):
    entry = found["graph_module"]["module_call_graph"][0]["signature"]
    entry["forward_arg_names"] = [f"x={CODE}"]


def parameter_path(found):
    for spec in found["graph_module"]["signature"]["input_specs"]:
        if "buffer" in spec:
            spec["buffer"]["buffer_name"] = f'scale"), {CODE}, ("'


def keywords(found):
    given = graph(found)["nodes"][0]["inputs"][0]
    given["name"], given["kind"] = f"a={CODE}, b", 2


def object_of_ones_own(found):
    found["graph_module"]["signature"]["input_specs"][0] = {
        "custom_obj": {"arg": {"name": "x", "class_fqn": "os.system"}}
    }


def pickled_weight(found):
    next(iter(found["config"].values()))["use_pickle"] = True


@pytest.mark.parametrize("edit", [argument_names, parameter_path, keywords, object_of_ones_own])
def test_names_that_are_code_are_refused(program, tmp_path, edit):
    with pytest.raises(AliveError) as said:
        from_exported(changed(edit))
    assert "\n" not in str(said.value)
    assert not (tmp_path / MARK).exists()


def text(found):
    node = graph(found)["nodes"][-1]
    node["inputs"].append({"name": "z", "arg": {"as_string": f"'); {CODE} #"}, "kind": 1})


def key(found):
    entry = found["graph_module"]["module_call_graph"][0]["signature"]
    entry["out_spec"] = entry["out_spec"].replace('\\"y\\"', f"\\\"y': {CODE}, 'z\\\"")


def test_text_stays_text(program, tmp_path):
    assert list(from_exported(changed(key))(torch.randn(4, 3))) == [f"y': {CODE}, 'z"]
    with pytest.raises((RuntimeError, TypeError), match="argument"):
        from_exported(changed(text))(torch.randn(4, 3))
    assert not (tmp_path / MARK).exists()


def computed(name, *given):
    """A size is computed from these, before anything else."""

    def edit(found):
        args = [{"name": "", "arg": one, "kind": 1} for one in given]
        made = [{"as_sym_int": {"as_name": "size_1"}}]
        node = {"target": f"_operator.{name}", "inputs": args, "outputs": made, "metadata": {}}
        graph(found)["nodes"].insert(0, node)

    return edit


TEXT, MANY = {"as_string": "%9999999999d"}, {"as_int": 10**9}


@pytest.mark.parametrize(
    "edit",
    [
        computed("mod", TEXT, {"as_int": 1}),
        computed("mul", TEXT, MANY),
        computed("mul", {"as_ints": [0]}, MANY),
        computed("mul", {"as_int": 2**40}, {"as_int": 2**40}),
        computed("add", {"as_strings": ["a"]}, {"as_strings": ["b"]}),
    ],
)
def test_sizes_are_computed_from_numbers_alone(program, edit):
    again = from_exported(changed(edit))
    with pytest.raises(AliveError, match="computes no size"):
        again(torch.randn(4, 3))


def twice_named(found):
    entry = found["graph_module"]["module_call_graph"][0]["signature"]
    entry["forward_arg_names"] = ["self"]


def test_what_makes_no_code_is_refused(program):
    with pytest.raises(AliveError, match="cannot be told apart"):
        from_exported(changed(twice_named))
    with pytest.raises(AliveError, match="2 graphs"):
        from_exported(changed(more=[("../models/model.json", b"{}")]))


def test_names_that_only_look_the_same_are_other_names(program, tmp_path):
    """Entries whose names differ in case or in how a letter is composed, links, and archives within: none is opened."""
    names = ("net/models/Model.JSON", "net/models/mode\u0301l.json", "/net/models/model.json", "net/models/model.json/")
    for name in names:
        again = from_exported(changed(more=[(name, CODE.encode())]))
        assert again(torch.randn(4, 3))["y"].shape == (8, 2)
    assert not (tmp_path / MARK).exists()


def test_a_name_with_a_zero_in_it_is_the_name_before(program):
    """Some readers end a name at a zero byte, others do not."""
    with zipfile.ZipFile("net.pt2") as archive:
        name = next(n for n in archive.namelist() if n.endswith("model.json"))
    changed(more=[(f"{name}~x", b"{}")])
    with open("bad.pt2", "r+b") as file:
        data = file.read().replace(f"{name}~x".encode(), f"{name}\0x".encode())
        file.seek(0)
        file.write(data)
    with pytest.raises(AliveError, match="twice"):
        from_exported("bad.pt2")


def test_a_local_header_that_names_another_entry_is_refused(program):
    with open(changed(), "r+b") as file:
        data = file.read()
        at = data.index(b"models/model.json")
        file.seek(at)
        file.write(b"models/modeX.json")
    with pytest.raises(AliveError):
        from_exported("bad.pt2")


def test_many_names_for_the_same_bytes_are_counted(program):
    def again_and_again(found):
        entry = dict(found["config"]["line.weight"])
        entry["tensor_meta"] = entry["tensor_meta"] | {"sizes": [{"as_int": 0}, {"as_int": 10**7}]}
        found["config"] |= {f"w{number}": entry for number in range(99)}

    with pytest.raises(AliveError, match="ALIVE_FILE_MEMORY"):
        from_exported(changed(again_and_again, entry="weights_config.json"))


def pickle_bytes(tmp_path):
    torch.save(Runs(), tmp_path / "p.pt")
    return (tmp_path / "p.pt").read_bytes()


def test_pickles_are_refused_or_never_opened(program, tmp_path):
    with pytest.raises(AliveError, match="pickle"):
        from_exported(changed(pickled_weight, entry="weights_config.json"))
    for name in ("net/data/sample_inputs/other.pt", "net/data/constants/custom_obj_0", "net/extra/x"):
        again = from_exported(changed(more=[(name, pickle_bytes(tmp_path))]))
        assert again(torch.randn(4, 3))["y"].shape == (8, 2)
    assert not (tmp_path / MARK).exists()


def test_an_entry_that_is_there_twice_is_refused(program, tmp_path):
    with zipfile.ZipFile("net.pt2") as archive:
        names = archive.namelist()
    for name in (next(n for n in names if n.endswith(ending)) for ending in ("model.json", "weights_config.json")):
        with pytest.raises(AliveError, match="twice"):
            from_exported(changed(more=[(name, b"{}")]))


def test_a_second_graph_is_refused(program):
    with pytest.raises(AliveError, match="2 graphs"):
        from_exported(changed(more=[("net/models/other.json", b"{}")]))


def large(found):
    meta = found["config"]["scale"]["tensor_meta"]
    meta["sizes"], meta["strides"] = [{"as_int": 10**10}], [{"as_int": 0}]


def negative(found):
    found["config"]["scale"]["tensor_meta"]["storage_offset"] = {"as_int": -8}


def outside(found):
    found["config"]["scale"]["path_name"] = "../../models/nothing"


@pytest.mark.parametrize("edit", [large, negative, outside])
def test_tensors_that_are_not_their_bytes_are_refused(program, edit):
    with pytest.raises(AliveError):
        from_exported(changed(edit, entry="weights_config.json"))


def test_a_packed_file_is_refused(program):
    with pytest.raises(AliveError, match="packed"):
        from_exported(changed(pack=zipfile.ZIP_DEFLATED))


def test_an_adapter_is_refused(alive, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    mapping = {"base_model_class": "Mine", "parent_library": "mine"}
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "auto_mapping": mapping}))
    np.savez(tmp_path / "x.npz", input_ids=np.zeros((3, 4), dtype=int))
    code, _, err = alive("census", "hf:folder", "--data", "x.npz")
    assert code == 2
    assert "code from elsewhere" in err


def test_a_deep_graph_is_refused(program):
    deep = "[" * 100_000 + "]" * 100_000
    with zipfile.ZipFile("bad.pt2", "w") as new:
        new.writestr("net/models/model.json", deep)
    with pytest.raises(AliveError):
        from_exported("bad.pt2")


@pytest.mark.parametrize(
    "settings",
    [
        {"attn_implementation": "kernels-community/flash-attn3"},
        {"_attn_implementation": "someone/anything@v1:function"},
        {"attn_implementation": {"": "sdpa", "text": "someone/anything"}},
        {"experts_implementation": "someone/anything"},
        {"text_config": {"attn_implementation": ["someone/anything"]}},
        {"attn_implementation": "flash_attention_2"},
        {"experts_implementation": "deepgemm"},
        {"auto_map": {"AutoModel": "modeling_mine.Mine"}},
        {"auto_map": {"AutoModel": "someone/code--modeling_mine.Mine"}},
        {"text_config": {"auto_map": {"AutoConfig": "configuration_mine.Mine"}}},
        {"trust_remote_code": True},
        {"use_kernels": True},
        {"kernel_config": {"kernel_mapping": {"RMSNorm": "someone/kernels:RMSNorm"}}},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        {"quantization_config": {"quant_method": "torchao", "quant_type": {"default": {"_type": "os.system"}}}},
        {"vision_config": {"backbone": "hf-hub:someone/anything", "use_timm_backbone": True}},
        {"use_pretrained_backbone": True},
    ],
)
def test_a_configuration_that_names_code_is_refused(alive, tmp_path, settings):
    folder = tmp_path / "folder"
    folder.mkdir()
    small = {
        "vocab_size": 9,
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    kinds = {"model_type": "bert", "architectures": ["BertModel"]}
    (folder / "config.json").write_text(json.dumps({**kinds, **small, **settings}))
    np.savez(tmp_path / "x.npz", input_ids=np.zeros((3, 4), dtype=int))
    code, _, err = alive("census", "hf:folder", "--data", "x.npz")
    assert code == 2
    assert "code from elsewhere" in err
    assert err.count("\n") == 1
