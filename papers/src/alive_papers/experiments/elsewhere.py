"""What the papers show that no experiment here runs: ImageNet, and theorems and pictures that tests show instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import nn

from ..networks.identity import all_conv_34
from ..networks.zoo import make
from .effort import Work
from .recorded import Made
from .spec import Measured

IMAGENET = 1_281_167  # training images
IMAGE = (3, 224, 224)
STEP = 1.07  # of a plain one, see docs/cost.md
NO_IMAGENET = "ImageNet is not read by alive"


@dataclass(frozen=True, slots=True)
class Stated:
    """A claim without an experiment: the published number if there is one, and the tests that show it if any do."""

    id: str
    sentence: str
    published: float | None = None
    tests: tuple[str, ...] = ()
    why: str = ""
    ours: Measured | None = None  # what a benchmark measured, where the claim is about code and machine
    band: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A figure, table or theorem without an experiment: why there is none, and what training it would take."""

    name: str
    title: str
    paper: str
    claims: tuple[Stated, ...]
    reason: str = ""
    works: Callable[[], Sequence[Work]] = tuple
    schedule: str = ""  # what is assumed where the paper is silent
    command: str = ""  # what measured `ours`
    made: Made | None = None


def _staged(network: str, depth: int) -> nn.Module:
    farkas = {"variant": "grow", "aggregation": "mean", "bias_mode": "paper"} if network == "farkas" else {}
    options = {"preset": f"imagenet{depth}", "batch_norm": True, **farkas}
    return make(network, IMAGE, 1000, depth=depth, width=64, generator=None, **options)  # type: ignore[arg-type]


def _imagenet_000() -> list[Work]:
    return [
        Work(f"{network} imagenet{depth}", partial(_staged, network, depth), IMAGE, 64, 30, IMAGENET)
        for network in ("resnet", "farkas")
        for depth in (50, 101, 152)
    ]


def _imagenet_003() -> list[Work]:
    return [Work("all-conv-34", all_conv_34, IMAGE, 64, 700_000, 256, "steps")]


def _errors() -> tuple[Stated, ...]:
    published = {
        "ResNet + BN": ((25.64, 7.68), (23.23, 6.49), (22.26, 5.95)),
        "FarkasNet + BN": ((23.70, 6.65), (23.74, 6.67), (22.17, 5.86)),
    }
    return tuple(
        Stated(f"{name}-{depth}-top{top}", f"{name}, {depth} layers, ImageNet: top-{top} error in percent", value)
        for name, rows in published.items()
        for depth, pair in zip((50, 101, 152), rows, strict=True)
        for top, value in zip((1, 5), pair, strict=True)
    )


ELSEWHERE: tuple[Elsewhere, ...] = (
    Elsewhere(
        name="000-Fig1",
        title="Half-planes of a dead layer, of batch norm and of a Farkas layer",
        paper="000 Farkas layers, Figure 1",
        reason="A picture of three kinds of layer, drawn by hand",
        claims=(
            Stated(
                "picture",
                "A plain layer can leave a region dead, and batch norm before the ReLU gives no margin; a Farkas "
                "layer has an active unit everywhere",
                tests=(
                    "tests/nn/test_farkas_layers.py::test_one_unit_is_above_the_guarantee_at_every_input",
                    "papers/tests/nn/test_farkas_blocks.py::test_batch_norm_over_all_units_before_the_relu_loses_the_margin",
                    "papers/tests/test_demo.py::test_where_every_point_is_dead_no_gradient_passes",
                ),
            ),
        ),
    ),
    Elsewhere(
        name="000-T3",
        title="ResNets and FarkasNets on ImageNet, and their first epochs",
        paper="000 Farkas layers, Table 3, Figures 2 and 7",
        reason=NO_IMAGENET,
        works=_imagenet_000,
        schedule="30 epochs at 224×224; the authors' schedule begins with smaller images",
        claims=(
            *_errors(),
            Stated("first-epoch", "FarkasNets lead by about 20 points after the first epoch", 20),
        ),
    ),
    Elsewhere(
        name="000-theory",
        title="One active unit in every Farkas layer",
        paper="000 Farkas layers, Section 3",
        reason="Theorems, shown by proof and test",
        claims=(
            Stated(
                "theorem-3.2",
                "Theorem 3.2: at every input at least one unit of a Farkas layer is active",
                tests=(
                    "tests/nn/test_farkas_layers.py::test_one_unit_is_above_the_guarantee_at_every_input",
                    "tests/nn/test_farkas_layers.py::test_the_worst_input_attains_the_guarantee",
                    "tests/theory/test_certificates.py::test_farkas_layers_are_certified_with_at_least_their_margin",
                ),
                why="With the paper's own bias a set of inputs of measure zero stays dead; a strict bias leaves none.",
            ),
            Stated(
                "corollary-3.3",
                "Corollary 3.3: the same for other one-sided activations",
                tests=(
                    "tests/functional/test_farkas_functional.py::"
                    "test_the_printed_corollary_fails_for_a_positive_cutoff_and_ours_does_not",
                ),
                why="As printed it fails for a positive cutoff; the corrected bias holds.",
            ),
            Stated(
                "algorithm-2",
                "Algorithm 2: residual blocks keep an active unit",
                tests=(
                    "tests/functional/test_farkas_functional.py::"
                    "test_the_printed_algorithm_2_leaves_points_dead_and_the_corrected_one_none",
                    "papers/tests/nn/test_farkas_blocks.py::test_every_relu_of_a_block_has_an_active_unit",
                ),
                why="As printed it leaves points dead; the corrected blocks leave none.",
            ),
        ),
    ),
    Elsewhere(
        name="001-theory",
        title="Separation constraints: their gradients, and how likely death is",
        paper="001 Separation constraints, Sections 2 and 3 and the appendix",
        reason="Formulas, shown by proof and test",
        claims=(
            Stated(
                "gradients",
                "Equations 35 to 42: the gradients of the slacks",
                tests=(
                    "tests/functional/test_separation.py::test_gradients_of_the_negative_slack_are_equations_35_to_38",
                    "tests/functional/test_separation.py::test_gradients_of_the_positive_slack_are_equations_39_to_42",
                ),
            ),
            Stated(
                "death",
                "Points and layers die the likelier the deeper and thinner a network is",
                tests=(
                    "tests/theory/test_probability.py::test_death_rises_with_depth_and_falls_with_width",
                    "tests/theory/test_probability.py::test_the_published_example_printed_and_true",
                    "tests/theory/test_probability.py::test_the_closed_form_of_points_agrees_with_simulation",
                ),
            ),
        ),
    ),
    Elsewhere(
        name="002-T1",
        title="The convolutional networks of 10 to 82 layers",
        paper="002 Variable activation networks, Table 1",
        reason="A list of layers",
        claims=(
            Stated(
                "layers",
                "Stages, widths and maps of the networks",
                tests=(
                    "papers/tests/nn/test_skips.py::test_table_1_of_the_paper",
                    "papers/tests/nn/test_skips.py::test_a_convolutional_network_has_8n_plus_2_layers",
                ),
            ),
        ),
    ),
    Elsewhere(
        name="002-theory",
        title="Multipliers that close the skips, and networks without them",
        paper="002 Variable activation networks, Section 3",
        reason="Rules, shown by test",
        claims=(
            Stated(
                "multipliers",
                "Equations 7 and 8 close every skip, after a number of steps that a closed form gives",
                tests=(
                    "tests/penalties/test_van_controller.py::test_one_step_is_equations_7_and_8_with_the_new_alpha",
                    "tests/penalties/test_van_controller.py::test_the_closed_form_is_the_simulation_within_a_step",
                    "tests/penalties/test_van_controller.py::test_figure_2_takes_120_epochs_of_batches",
                ),
                why="The printed settings close them in 870 steps on MNIST and in 10 on CIFAR; Figure 2 shows about "
                "120 epochs.",
            ),
            Stated(
                "plain-in-the-end",
                "A network whose skips are closed is a plain one with the same outputs",
                tests=("tests/surgery/test_fold.py::test_folding_is_exact_to_the_bit",),
            ),
        ),
    ),
    Elsewhere(
        name="003-T2-ImageNet",
        title="The all-convolutional network of 34 layers on ImageNet",
        paper="003 Identity matters, Table 2, column ImageNet",
        reason=NO_IMAGENET,
        works=_imagenet_003,
        schedule="700,000 steps of 256 images, as the paper counts them",
        claims=(
            Stated("top1", "All-convolutional, 34 layers, ImageNet: top-1 error in percent", 35.29),
            Stated("top5", "All-convolutional, 34 layers, ImageNet: top-5 error in percent", 14.17),
        ),
    ),
    Elsewhere(
        name="003-theory",
        title="Linear and rectified residual networks",
        paper="003 Identity matters, Sections 2 and 3",
        reason="Theorems, shown by proof and test",
        claims=(
            Stated(
                "theorem-2.1",
                "Theorem 2.1: a linear map is a product of near-identity layers whose norms fall as one over the depth",
                tests=(
                    "papers/tests/theory/test_linear_residual.py::"
                    "test_the_product_is_the_map_and_the_norm_is_below_the_papers_bound",
                    "papers/tests/theory/test_linear_residual.py::test_norms_fall_like_one_over_depth",
                    "papers/tests/theory/test_linear_residual.py::test_negative_determinants_are_refused_or_reflected",
                ),
                why="It holds for maps of positive determinant alone; others need one reflection more.",
            ),
            Stated(
                "theorem-2.2",
                "Theorem 2.2 and (2.3): near the identity the gradient vanishes at optima alone",
                tests=(
                    "papers/tests/theory/test_linear_residual.py::test_the_corrected_bound_holds_on_ten_thousand_draws",
                    "papers/tests/theory/test_linear_residual.py::"
                    "test_the_printed_bound_is_violated_by_layers_that_all_shrink",
                ),
                why="(2.3) as printed is violated; with the exponent doubled it holds.",
            ),
            Stated(
                "theorem-3.2",
                "Theorem 3.2: a residual network with few weights can name any labels of its points",
                tests=(
                    "papers/tests/theory/test_memoriser.py::test_five_thousand_random_points_with_random_labels",
                    "papers/tests/theory/test_memoriser.py::test_the_whole_digits_set",
                    "papers/tests/theory/test_memoriser.py::test_any_labelling_of_any_distinct_points",
                ),
                why="The constants of the proof do not suffice; the construction here needs none of them.",
            ),
        ),
    ),
    Elsewhere(
        name="004-Fig1",
        title="Units and points: dead, linear, nonlinear",
        paper="004 Jumpstart, Figure 1",
        reason="A picture of the definitions",
        claims=(
            Stated(
                "definitions",
                "Definitions 1 and 2: which units are dead or linear and which points are dead",
                tests=(
                    "tests/diagnosis/test_census.py::test_a_census_equals_brute_force",
                    "tests/functional/test_states.py::test_states_from_extremes_equal_states_from_all_values",
                ),
            ),
        ),
    ),
    Elsewhere(
        name="004-memory",
        title="What the penalty keeps for the backward pass",
        paper="004 Jumpstart, Section 4",
        reason="A property of the code, shown by test; `alive bench penalty` measures memory and time on any machine",
        claims=(
            Stated(
                "memory",
                "Tensors kept with the penalty, relative to those without",
                1.5,
                tests=(
                    "papers/tests/test_benchmarks.py::test_the_penalty_saves_nothing_of_the_size_of_the_activations",
                ),
                why="The penalty here keeps nothing of the size of an activation, where the paper's keeps half more.",
            ),
        ),
    ),
    Elsewhere(
        name="004-time",
        title="How much longer training takes with the penalty",
        paper="004 Jumpstart, Section 4",
        reason="A property of code and machine: `alive bench penalty` measures a training step on any machine",
        command="alive bench penalty",
        made=Made("2026-11-19", "AMD EPYC, one thread of a busy machine", "torch 2.13.0, numba"),
        claims=tuple(
            Stated(
                data,
                f"Training time with the penalty on {name}, relative to that without",
                published,
                why="A compiled penalty costs a fraction of what hooks in Python cost; conv 20x8 at batches of 128",
                ours=Measured(STEP, 1, 0.0),
                band=(published - 0.1, published + 0.1),
            )
            for data, name, published in (("cifar10", "CIFAR-10", 1.33), ("cifar100", "CIFAR-100", 1.47))
        ),
    ),
)
