"""The real data sets have the sizes that their README states."""

import shutil

import pytest

from divea import read_links, read_task

SIZES = {
    "dbp15k/zh_en": ((19388, 19572), (70414, 95142)),
    "dbp15k/fr_en": ((19661, 19993), (105998, 115722)),
    "openea/D_Y_15K_V1": ((15000, 15000), (30291, 26638)),
    "contea/zh_en": ((84381, 132425), (229383, 400306)),
    "debian/packages": ((152557, 192221), (1281134, 1411515)),
}


@pytest.mark.parametrize("name", SIZES)
def test_graphs_have_their_known_sizes(shared_data, name):
    task = read_task(shared_data / name)
    assert (task.source.num_entities, task.target.num_entities) == SIZES[name][0]
    assert (task.source.num_triples, task.target.num_triples) == SIZES[name][1]


def test_seeds_and_links_may_use_the_ids_of_the_folder(shared_data):
    folder = shared_data / "dbp15k" / "zh_en"
    split = folder / "splits" / "20" / "0"
    task = read_task(folder, seeds=split / "sup_ent_ids")
    assert len(task.seeds) == 3000
    test = read_links(split / "ref_ent_ids", task, folder=folder)
    assert len(test) == 12000


def test_the_debian_packages_have_relation_labels(shared_data):
    task = read_task(shared_data / "debian" / "packages")
    assert "Build-Depends" in task.source.relations.to_pylist()
    assert len(task.seeds) == 25249


def test_no_task_reader_opens_test_links(shared_data, tmp_path):
    """A broken file of test links in the folder has no effect."""
    folder = tmp_path / "zh"
    folder.mkdir()
    for name in ("triples_1", "triples_2", "ent_ids_1", "ent_ids_2"):
        shutil.copy(shared_data / "dbp15k" / "zh_en" / name, folder / name)
    (folder / "ref_ent_ids").write_bytes(b"\0broken")
    assert read_task(folder).source.num_entities == 19388
