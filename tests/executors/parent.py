"""Jobs on a stored task, for processes that tests start and kill."""

from divea.alignment.loop import Work
from divea.alignment.settings import Settings
from divea.division import division_strategy
from divea.graphs import Links
from divea.graphs.storage import load_task
from divea.run.jobs import jobs_of

SMALL = {"labels": 32, "heads": 8, "rounds": 2}


def jobs_in(folder):
    """Four jobs."""
    task = load_task(folder)
    work = Work(0, task, division_strategy("divea", 4, 100).divide(task).subtasks, Links.from_pairs([]))
    return jobs_of(
        work,
        Settings(subtasks=4, division="divea", model_options=SMALL),
        device="cpu",
        memory=None,
        threads=1,
    )
