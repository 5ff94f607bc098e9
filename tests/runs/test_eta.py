"""The remaining time of a run: what later iterations cost, and what was measured so far."""

import pytest

from divea.config import ModelSettings, Settings
from divea.graphs.planted import planted_pair
from divea.runs.eta import Eta, _seconds, iteration_costs

TASK = planted_pair().task


def simulated(seconds, costs, subtasks=2, workers=1):
    """Run the events of iterations whose subtasks take these seconds; yields the time and the estimator."""
    eta, now = Eta(), 1000.0
    eta.observe("started", {"iterations": len(seconds), "subtasks": subtasks, "costs": costs}, now)
    for iteration, each in enumerate(seconds):
        now += 1
        eta.observe("stage", {"stage": "divide", "iteration": iteration, "seconds": 1.0}, now)
        facts = {"iteration": iteration, "subtasks": subtasks, "solved_before": 0}
        eta.observe("iteration", facts, now)
        for solved in range(0, subtasks, workers):
            yield now, eta
            now += each
            for subtask in range(solved, min(solved + workers, subtasks)):
                eta.observe("solved", {"subtasks": [subtask]}, now)
        eta.observe("stage", {"stage": "learn", "iteration": iteration, "seconds": 0.0}, now)
    yield now, eta


BEST = [8.0, 8.0, 8.0, 40.0, 40.0, 40.0, 40.0]
"""Seconds of a subtask in the iterations of `--preset best`: the last four have a dearer model."""


def true_and_estimated(costs, workers=1, seconds=BEST):
    steps = [(now, eta.seconds_left(now)) for now, eta in simulated(seconds, costs, workers=workers)]
    end = steps[-1][0]
    return [(end - now, estimate) for now, estimate in steps]


def test_later_iterations_cost_what_their_model_costs():
    """The estimates are wrong by a factor of three, and in the ratio of the models by a quarter."""
    found = true_and_estimated([cost / 3 * (1.25 if cost > 8 else 1) for cost in BEST])
    assert found[0][1] is None  # nothing was measured yet
    for true, estimate in found[1:-1]:
        assert true / 1.3 < estimate < true * 1.3
    assert found[-1][1] == 0


def test_a_model_without_known_costs_is_expected_to_cost_what_was_measured():
    for true, estimate in true_and_estimated([None] * 3, seconds=[8.0, 8.0, 8.0])[1:-1]:
        assert estimate == pytest.approx(true, rel=0.1)


def test_workers_side_by_side_are_counted():
    for true, estimate in true_and_estimated(BEST, workers=2)[1:-1]:
        assert estimate == pytest.approx(true, rel=0.1)


def test_the_estimate_moves_while_a_subtask_is_solved():
    steps = list(simulated([10.0, 10.0], [1.0, 1.0]))
    assert len(steps) == 5
    now, eta = next(step for number, step in enumerate(simulated([10.0, 10.0], [1.0, 1.0])) if number == 1)
    left = [eta.seconds_left(now + passed) for passed in (0, 4, 10, 100)]
    assert left[0] - left[1] == pytest.approx(4) and left[0] - left[2] == pytest.approx(10)
    # A subtask that takes longer than the others does not eat up the time of those that follow.
    assert left[3] == left[2] > 20


def test_time_between_two_starts_does_not_count():
    eta = Eta()
    eta.observe("started", {"iterations": 1, "subtasks": 3, "costs": [1.0]}, 0.0)
    eta.observe("iteration", {"iteration": 0, "subtasks": 3, "solved_before": 0}, 0.0)
    eta.observe("solved", {"subtasks": [0]}, 10.0)
    eta.observe("started", {"iterations": 1, "subtasks": 3, "costs": [1.0]}, 10_000.0)
    eta.observe("iteration", {"iteration": 0, "subtasks": 3, "solved_before": 1}, 10_000.0)
    assert eta.seconds_left(10_000.0) == pytest.approx(20)


@pytest.mark.parametrize("value", [None, -1, 1e300, float("nan"), float("inf"), 10**400, "7", [], {}, True])
def test_events_that_somebody_else_wrote_are_harmless(value):
    eta = Eta()
    for event in ("started", "iteration", "solved", "failed", "stage", "learned", "anything"):
        for name in ("iterations", "iteration", "subtasks", "solved_before", "costs", "seconds", "stage"):
            eta.observe(event, {name: value, "stage": "divide"}, 1.0)
            eta.observe(event, dict.fromkeys(("iterations", "subtasks", "costs", "iteration"), value), 1.0)
            left = eta.seconds_left(2.0)
            assert left is None or left >= 0


def test_costs_follow_models_and_options():
    best = iteration_costs(TASK, Settings.preset("best", subtasks=2), "cpu")
    assert best[0] == best[2] < best[3] == best[6]
    steps = [
        iteration_costs(TASK, Settings.of(None, {"model": "rrea", "model.rrea.steps": steps}), "cpu")[0]
        for steps in (60, 120)
    ]
    assert steps[1] == pytest.approx(2 * steps[0], rel=0.01)
    cuda = iteration_costs(TASK, Settings(), "cuda")
    assert len(cuda) == 3 and cuda[0] != iteration_costs(TASK, Settings(), "cpu")[0]


SUBTASKS = [(2_000, 6_194), (5_000, 15_666)]
"""Entities and triples of the subtasks below."""

FEW, MANY = (50, 123), (720, 1_800)
"""Seeds of the subtasks: at the start, and with pseudo-seeds."""

MEASURED = {
    ("fast", "model", "label-propagation", FEW): (0.52, 1.55),
    ("best", "model", "label-propagation", FEW): (3.01, 8.99),
    ("best", "last_model", "label-propagation", FEW): (1.24, 3.34),
    ("best", "last_model", "rrea", FEW): (2.80, 9.39),
    ("best", "last_model", "dual-amn", FEW): (7.68, 23.13),
    ("best", "last_model", "label-propagation", MANY): (1.37, 3.36),
    ("best", "last_model", "rrea", MANY): (12.74, 40.66),
    ("best", "last_model", "dual-amn", MANY): (18.95, 65.85),
}
"""CPU seconds of the models of the presets on one core of the machine that the table of costs comes from."""


@pytest.mark.parametrize(("preset", "group", "name", "seeds"), MEASURED)
@pytest.mark.parametrize("at", [0, 1])
def test_costs_of_the_presets_are_what_was_measured(preset, group, name, seeds, at):
    options = getattr(Settings.preset(preset), group).options(name)
    model = ModelSettings.checked({"name": name, name: options.model_dump()})
    expected = _seconds(model, "cpu", *SUBTASKS[at], seeds[at])
    assert expected == pytest.approx(MEASURED[preset, group, name, seeds][at], rel=0.45)


@pytest.mark.parametrize("at", [0, 1])
def test_the_ratio_of_both_models_of_best_is_what_was_measured(at):
    settings = Settings.preset("best")
    last = _seconds(settings.last_model, "cpu", *SUBTASKS[at], MANY[at])
    first = _seconds(settings.model, "cpu", *SUBTASKS[at], MANY[at])
    names = ("label-propagation", "rrea", "dual-amn")
    measured = sum(MEASURED["best", "last_model", name, MANY][at] for name in names)
    true = measured / MEASURED["best", "model", "label-propagation", FEW][at]
    assert last / first == pytest.approx(true, rel=0.2)


def test_seeds_change_the_costs_of_hard_losses_alone():
    def seconds(name, seeds, **options):
        return _seconds(ModelSettings.checked({"name": name, name: options}), "cpu", 2_000, 6_000, seeds)

    assert seconds("dual-amn", 40) == seconds("dual-amn", 50) < seconds("dual-amn", 500)
    assert seconds("dual-amn", 1024) == seconds("dual-amn", 9999), "a batch holds no more"
    assert seconds("rrea", 50, loss="hard") < seconds("rrea", 500, loss="hard")
    for name in ("rrea", "gcn-align", "label-propagation"):
        assert seconds(name, 50) == seconds(name, 5000)


def test_a_model_that_was_not_measured_has_no_costs(monkeypatch):
    monkeypatch.setattr("divea.runs.eta.COSTS", {})
    assert iteration_costs(TASK, Settings(), "cpu") == [None, None, None]


def test_folds_of_a_cross_validation_count():
    """Two folds and the main loop, of two iterations each, in the first fold's first iteration."""
    eta = Eta()
    eta.observe("started", {"iterations": 2, "subtasks": 2, "folds": 2, "costs": [1.0, 3.0]}, 0.0)
    eta.observe("iteration", {"fold": 1, "iteration": 0, "subtasks": 2, "solved_before": 0}, 0.0)
    eta.observe("solved", {"subtasks": [0]}, 10.0)
    assert eta.seconds_left(10.0) == pytest.approx(10 + 60 + 2 * 80)
    eta.observe("iteration", {"fold": 0, "iteration": 0, "subtasks": 2, "solved_before": 1}, 10.0)
    assert eta.seconds_left(10.0) == pytest.approx(10 + 60)
