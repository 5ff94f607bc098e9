"""The text encoder: names as vectors of a sentence-transformers model, here a tiny one with random weights.

The tests that need the package are skipped where it is not installed (`pip install divea[text]`).
"""

import shutil
import string
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from divea.config import FeatureSettings
from divea.errors import InputError
from divea.features import check_feature, make_features
from divea.features.encoder import Encoder
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.builder import GraphBuilder
from divea.graphs.labels import as_labels

ROOT = Path(__file__).parents[2]
NONE = Links.from_pairs([])
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


def graph_of(names, language="@en"):
    """A graph of entities with a list of names each; entities without a name have numbers as labels."""
    rows = [(entity, name) for entity, listed in names.items() for name in listed]
    builder = GraphBuilder()
    builder.add_entities(as_labels(names))
    subjects, values = ([row[number] for row in rows] for number in range(2))
    columns = (subjects, [LABEL] * len(rows), values, [language] * len(rows))
    builder.add_attributes(*map(as_labels, columns))
    return builder.build()


TASK = AlignmentTask(
    graph_of({"1": ["Rome"], "2": ["Oslo", "Christiania"], "3": [], "4": ["Bern", " "]}),
    graph_of({"11": ["Oslo"], "12": ["Rome"], "13": ["Bern", "Bern "], "14": ["New York"]}),
)


def encoder_of(model, **settings):
    (feature,) = make_features(
        FeatureSettings.checked({"name": "encoder", "encoder": {"model": str(model)}, **settings})
    )
    return feature


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A BERT of two layers with random weights, and a vocabulary of single letters."""
    pytest.importorskip("sentence_transformers")
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    letters = string.ascii_lowercase + string.digits
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [*special, *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def vector(graph, rows, label):
    return rows[graph.find([label])[0]].astype(np.float32)


def unit_vectors(folder, *texts):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu").encode(list(texts), normalize_embeddings=True)


def test_an_entity_has_the_vector_of_its_name(model_folder):
    found = encoder_of(model_folder).compute(TASK, NONE)
    assert found.name == "encoder" and found.source.dtype == found.target.dtype == np.float16
    assert found.source.shape == found.target.shape == (4, 32)
    (rome,) = unit_vectors(model_folder, "Rome")
    assert vector(TASK.source, found.source, "1") == pytest.approx(rome, abs=2e-3)
    assert np.array_equal(vector(TASK.source, found.source, "1"), vector(TASK.target, found.target, "12"))


def test_several_names_have_the_mean_of_their_unit_vectors(model_folder):
    found = encoder_of(model_folder).compute(TASK, NONE)
    both = unit_vectors(model_folder, "Oslo", "Christiania").mean(axis=0)
    assert vector(TASK.source, found.source, "2") == pytest.approx(both, abs=2e-3)


def test_a_name_that_is_repeated_counts_once_and_an_empty_one_not_at_all(model_folder):
    found = encoder_of(model_folder).compute(TASK, NONE)
    bern = vector(TASK.source, found.source, "4")
    assert bern.any() and np.array_equal(bern, vector(TASK.target, found.target, "13"))


def test_an_entity_without_a_name_has_zeros(model_folder):
    found = encoder_of(model_folder).compute(TASK, NONE)
    assert not vector(TASK.source, found.source, "3").any()


def test_distinct_texts_are_encoded_once_in_chunks(model_folder, monkeypatch):
    from sentence_transformers import SentenceTransformer

    expected = encoder_of(model_folder).compute(TASK, NONE)
    encode, seen = SentenceTransformer.encode, []

    def spy(self, texts, **options):
        seen.append(list(texts))
        return encode(self, texts, **options)

    monkeypatch.setattr(SentenceTransformer, "encode", spy)
    monkeypatch.setattr("divea.features.encoder._CHUNK", 3)
    found = encoder_of(model_folder).compute(TASK, NONE)
    assert seen == [["Bern", "Oslo", "Rome"], ["New York", "Christiania"]]
    for one, other in zip(found.arrays, expected.arrays, strict=True):
        assert one == pytest.approx(other, abs=2e-3)


def test_the_property_that_names_entities_is_used(model_folder):
    encoder = encoder_of(model_folder, names={"source": LABEL, "target": LABEL})
    assert encoder.compute(TASK, NONE) is not None
    with pytest.raises(InputError, match="no entity has a literal of the property 'title'"):
        encoder_of(model_folder, names={"source": "title"}).compute(TASK, NONE)


def test_a_task_without_names_has_no_such_feature(model_folder):
    numbers = KnowledgeGraph.from_triples([], ["1", "2"])
    assert encoder_of(model_folder).compute(AlignmentTask(numbers, TASK.target), NONE) is None


def test_long_names_are_cut_off(model_folder):
    long = graph_of({"1": ["x" * 2_000_000], "2": ["x" * 1000]})
    found = encoder_of(model_folder).compute(AlignmentTask(long, TASK.target), NONE)
    assert np.array_equal(vector(long, found.source, "1"), vector(long, found.source, "2"))


def test_made_from_changes_with_the_texts_and_the_files_of_the_model(model_folder, tmp_path):
    first = encoder_of(model_folder).made_from(TASK)
    assert encoder_of(model_folder).made_from(TASK) == first
    copied = shutil.copytree(model_folder, tmp_path / "model")
    assert encoder_of(copied).made_from(TASK) == first
    (copied / "README.md").write_text("A tiny model.")
    assert encoder_of(copied).made_from(TASK) == first
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert encoder_of(copied).made_from(TASK) != first
    other_names = AlignmentTask(TASK.source, graph_of({"11": ["Oslo"], "12": ["Roma"]}))
    swapped_names = AlignmentTask(TASK.source, graph_of({"11": ["Roma"], "12": ["Oslo"]}))
    found = {encoder_of(model_folder).made_from(task) for task in (other_names, swapped_names)}
    assert len(found | {first}) == 3


def test_a_missing_model_setting_is_named():
    with pytest.raises(InputError, match=r"^features\.encoder\.model is not set"):
        make_features(FeatureSettings.checked({"name": "encoder"}))


@pytest.mark.parametrize("name", ["missing/model/folder", "/missing", "./missing", "~/model"])
def test_a_missing_folder_is_named_with_its_full_path(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        encoder_of(name).made_from(TASK)
    assert str(error.value) == f"features.encoder.model: no folder '{(tmp_path / name).absolute()}'"


def test_a_file_is_no_model(tmp_path, monkeypatch):
    (tmp_path / "model").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"features\.encoder\.model: no folder '.*/model'$"):
        encoder_of("model").compute(TASK, NONE)


def test_weights_in_another_format_than_safetensors_are_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(InputError, match=r"it has no weights in a \.safetensors file$"):
        encoder_of(tmp_path).compute(TASK, NONE)


def test_a_folder_that_cannot_be_loaded_is_named(model_folder, tmp_path):
    shutil.copy(model_folder / "model.safetensors", tmp_path)
    with pytest.raises(InputError, match="cannot be loaded as a sentence-transformers model") as error:
        encoder_of(tmp_path).compute(TASK, NONE)
    assert str(error.value).startswith(str(tmp_path)) and "\n" not in str(error.value)


def test_a_name_that_is_not_on_the_hub_is_an_error_of_one_line(monkeypatch, tmp_path):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    pytest.importorskip("sentence_transformers")
    asked = []

    def no_such_model(name, **options):
        asked.append(name)
        raise OSError("no such model,\nor no connection")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", no_such_model)
    monkeypatch.chdir(tmp_path)
    for name, expected in (("tiny", "sentence-transformers/tiny"), ("me/tiny", "me/tiny")):
        with pytest.raises(InputError) as error:
            encoder_of(name).compute(TASK, NONE)
        assert str(error.value) == (
            f"features.encoder.model: no folder '{tmp_path}/{name}', and no model '{expected}' from the "
            "Hugging Face hub (OSError: no such model, or no connection)"
        )
    assert asked == ["sentence-transformers/tiny", "me/tiny"]


def test_a_model_of_the_hub_is_used_from_its_download(model_folder, monkeypatch, tmp_path):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **options: str(model_folder))
    monkeypatch.chdir(tmp_path)
    found, expected = (encoder_of(name).compute(TASK, NONE) for name in ("me/tiny", model_folder))
    assert np.array_equal(found.source, expected.source)


def test_a_missing_package_is_an_error_that_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError) as error:
        encoder_of(tmp_path).compute(TASK, NONE)
    assert str(error.value) == (
        "the feature 'encoder' needs the package sentence-transformers: pip install 'divea[text]'"
    )


def test_the_package_is_not_imported_before_it_is_needed():
    code = (
        "import sys; from divea.config import FeatureSettings; from divea.features import make_features; "
        "make_features(FeatureSettings.checked({'name': 'encoder', 'encoder': {'model': 'x/y'}})); "
        "sys.exit(bool({'sentence_transformers', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_two_processes_give_the_same_bytes_and_print_nothing_to_standard_output(model_folder):
    code = (
        "from tests.features.test_encoder import NONE, TASK, encoder_of; from divea.io import checksum; "
        f"print(checksum(*encoder_of({str(model_folder)!r}).compute(TASK, NONE).arrays))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1 and len(found.pop()) == 33


def test_an_encoder_meets_the_contract_of_features(model_folder):
    check_feature(encoder_of(model_folder))


def test_the_class_is_registered():
    assert isinstance(encoder_of("x/y"), Encoder)
