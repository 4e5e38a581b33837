"""The experiments of the paper, by name."""

from collections.abc import Mapping

from nestbo.bench.experiments import conclusions, drawings
from nestbo.bench.experiments.conclusions import BALANCED, HESBO, OURS
from nestbo.bench.experiments.experiment import Experiment
from nestbo.bench.naming import parse
from nestbo.errors import SettingsError

MUJOCO_SEEDS = 50
"""Repetitions of the MuJoCo tasks (appendix on MuJoCo)."""

SHORT, LONG = 1000, 2000
"""Evaluations for Mopta08, Branin2 and Hartmann6, and for the other benchmarks (section 4 of the paper)."""

BASELINES = (
    *("turbo-1", "turbo-5", "saasbo", "alebo@10", "alebo@20", "hesbo@10", "hesbo@20"),
    *("cma-es", "cma-es-central", "random"),
)
"""Those of the paper, and CMA-ES from the centre as well: subspaces go through the centre, which is an advantage where
the minimum is not far from it, so a method without subspaces should have it too."""
METHODS = (*OURS, *BASELINES)
FIXED = tuple(f"turbo-balanced@{d}" for d in (2, *range(10, 101, 10)))
MUJOCO = ("ant", "swimmer", "half-cheetah", "hopper", "walker2d", "humanoid")


def names() -> tuple[str, ...]:
    """The names of all experiments.

    >>> names()[0]
    'success-probabilities'
    """
    return tuple(_EXPERIMENTS)


def get(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        SettingsError: If there is none.
    """
    base, dim = parse("experiment", name, (), _EXPERIMENTS)
    if dim is not None:
        raise SettingsError(f"{base} takes no dimension, got {name!r}: write {base}")
    return _EXPERIMENTS[base]


def _as_other(what: str) -> str:
    return f"The paper states no budget for {what}: {LONG} evaluations, as for most of its section 4."


_BOTH = (
    "nestbo is our method, nestbo-paper follows the paper's letter, nestbo-paper-warm follows it in all but the fit, "
    "which would take many hours with these budgets."
)
_STOP = "The paper ends a run at a regret below 0.001; here runs go on, and who reached it is counted."

_EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="success-probabilities",
            title="Worst-case success probabilities of both embeddings (no runs)",
            reruns="Figure 2 (fig:success_probabilities), section 3",
            claims="The balanced embedding is at least as likely to contain the optimum as HeSBO's for every d, it is "
            "certain to at d = D, and the difference vanishes as D grows.",
            drawing=drawings.probabilities,
            concluding=conclusions.of_probabilities,
        ),
        Experiment(
            name="main",
            title="All methods on Branin2, Hartmann6, Lasso-High, Lasso-DNA and Lasso-Hard",
            reruns="What can be run offline of fig:lasso-hard-high (section 4), and fig:lasso-dna (appendix), as one "
            "comparison with profiles and average ranks",
            claims="BAxUS is the only method that performs well on all of them.",
            concluding=conclusions.of_convergence,
            problems=("branin2@500", "hartmann6@500", "lasso-high", "lasso-dna", "lasso-hard"),
            methods=METHODS,
            budgets={
                "branin2@500": SHORT,
                "hartmann6@500": SHORT,
                "lasso-high": LONG,
                "lasso-dna": LONG,
                "lasso-hard": LONG,
            },
            notes=(_BOTH, _STOP, _as_other("Lasso-DNA")),
            drawing=drawings.main,
        ),
        Experiment(
            name="fig-branin-hartmann",
            title="Branin2 and Hartmann6 in 500 dimensions",
            reruns="Two panels of fig:lasso-hard-high, section 4",
            claims="SAASBO, BAxUS, ALEBO and HeSBO find an optimum of Branin2, SAASBO and ALEBO fastest; on Hartmann6 "
            "SAASBO is best, closely followed by BAxUS.",
            drawing=drawings.convergence,
            concluding=conclusions.of_convergence,
            problems=("branin2@500", "hartmann6@500"),
            methods=METHODS,
            budgets={"branin2@500": SHORT, "hartmann6@500": SHORT},
            notes=(_BOTH, _STOP),
        ),
        Experiment(
            name="fig-lasso",
            title="Lasso-High and Lasso-Hard",
            reruns="Two panels of fig:lasso-hard-high, section 4",
            claims="BAxUS outperforms all baselines, and its runs vary little; TuRBO and CMA-ES are better than "
            "SAASBO, ALEBO and HeSBO.",
            drawing=drawings.convergence,
            concluding=conclusions.of_convergence,
            problems=("lasso-high", "lasso-hard"),
            methods=METHODS,
            budgets={"lasso-high": LONG, "lasso-hard": LONG},
            notes=(_BOTH,),
        ),
        Experiment(
            name="fig-svm-mopta",
            title="SVM and Mopta08",
            reruns="Two panels of fig:lasso-hard-high, section 4",
            claims="BAxUS is best on both; on Mopta08 it is followed by TuRBO and CMA-ES, and SAASBO begins slightly "
            "faster.",
            drawing=drawings.convergence,
            concluding=conclusions.of_convergence,
            problems=("svm", "mopta08"),
            methods=METHODS,
            budgets={"svm": LONG, "mopta08": SHORT},
            notes=(_BOTH,),
        ),
        Experiment(
            name="fig-lasso-noisy",
            title="Lasso-High and Lasso-Hard with noisy data",
            reruns="fig:lasso_hard_high_noisy, section 4",
            claims="BAxUS is better than all others at any number of evaluations; CMA-ES is considerably worse than "
            "without noise.",
            drawing=drawings.convergence,
            concluding=conclusions.of_convergence,
            problems=("lasso-hard-noisy", "lasso-high-noisy"),
            methods=METHODS,
            budgets={"lasso-hard-noisy": LONG, "lasso-high-noisy": LONG},
            notes=(_BOTH,),
        ),
        Experiment(
            name="ablation-embedding",
            title="A trust region in balanced and in HeSBO embeddings, shifted Ackley10",
            reruns="fig:ablation, appendix on the embedding ablation",
            claims="The balanced embedding gives significantly better final values, p about 0.00001.",
            problems=("ackley10-shifted@30",),
            methods=(BALANCED, HESBO),
            budgets={"ackley10-shifted@30": SHORT},
            notes=(
                f"The paper states no budget: {SHORT} evaluations, as for its other synthetic functions.",
                "The test is exact up to 100 runs in all.",
                "The paper runs TuRBO in the embedding, this is nestbo's own trust region.",
            ),
            compares=2,
            drawing=drawings.ablation,
            concluding=conclusions.of_ablation,
        ),
        Experiment(
            name="fixed-vs-growing",
            title="A growing embedding against fixed ones on Lasso-Hard",
            reruns="fig:thesbo_vs_baxus, appendix on the embedding ablation",
            claims="Of the fixed embeddings only d = 2 begins as fast as BAxUS, and it ends worst; BAxUS is better "
            "than every fixed d.",
            concluding=conclusions.of_convergence,
            problems=("lasso-hard",),
            methods=(OURS[0], *FIXED),
            budgets={"lasso-hard": LONG},
            notes=(f"The paper states no budget: {LONG} evaluations, as for Lasso-Hard elsewhere.",),
            drawing=drawings.fixed,
        ),
        Experiment(
            name="fig-lasso-dna",
            title="Lasso-DNA",
            reruns="fig:lasso-dna, appendix",
            claims="BAxUS reaches a good value faster than any other method; TuRBO ends slightly better.",
            drawing=drawings.convergence,
            concluding=conclusions.of_convergence,
            problems=("lasso-dna",),
            methods=METHODS,
            budgets={"lasso-dna": LONG},
            notes=(_BOTH, _as_other("Lasso-DNA")),
        ),
        Experiment(
            name="fig-mujoco",
            title="Six MuJoCo locomotion tasks",
            reruns="fig:mujoco, appendix",
            claims="BAxUS is equal or better on four of six; HeSBO is best on Ant, TuRBO on Half-Cheetah, CMA-ES on "
            "Humanoid.",
            drawing=drawings.convergence,
            concluding=conclusions.of_convergence,
            problems=MUJOCO,
            methods=METHODS,
            budgets=dict.fromkeys(MUJOCO, LONG),
            seeds=MUJOCO_SEEDS,
            notes=(
                _BOTH,
                _as_other("MuJoCo"),
                "On Humanoid the paper limits the target dimensionality to 1000; the methods here do not.",
            ),
        ),
    )
}
