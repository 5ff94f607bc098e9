"""Every kind of bad input gives one line on stderr, exit code 2 and no half-written output.

A row of the table `BAD` is a name, files to write (they replace those of `GOOD` with the same name), the
arguments of the command, and a text that the line must contain.
"""

import bz2
import gzip
import lzma
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divea import io
from tests.command_line import divea

GOOD = {
    "a.tsv": "e1\tr\te2\ne2\tr\te3\ne3\tr\te1\n",
    "b.tsv": "E1\tr\tE2\nE2\tr\tE3\nE3\tr\tE1\n",
    "a.nt": "<x:e1> <x:r> <x:e2> .\n<x:e2> <x:r> <x:e3> .\n",
    "seeds.tsv": "e1\tE1\ne2\tE2\n",
    "jape/ent_ids_1": "0\te1\n1\te2\n",
    "jape/ent_ids_2": "2\tE1\n3\tE2\n",
    "jape/rel_ids_1": "7\tr\n",
    "jape/triples_1": "0\t7\t1\n",
    "jape/triples_2": "2\t8\t3\n",
    "jape/sup_ent_ids": "0\t2\n",
    "openea/rel_triples_1": "e1\tr\te2\n",
    "openea/rel_triples_2": "E1\tr\tE2\n",
    "other/readme.txt": "nothing here\n",
    "full/file.txt": "another file\n",
}
FILES = ["--source", "a.tsv", "--target", "b.tsv", "--seeds", "seeds.tsv"]
LONG = "x" * 50_000_000
TABLE_TEXT = GOOD["a.tsv"].encode() * 5000


RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="http://x.example/">'
OAEI = "http://knowledgeweb.semanticweb.org/heterogeneity/alignment"
SSSOM = "subject_id\tpredicate_id\tobject_id\nx:a\tskos:exactMatch\tx:b\n"
LAUGHS = "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 12))
ALIASES = "".join(f"#a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))


def zst(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


def xml(declarations: str, text: str = "x", opening: str = RDF) -> str:
    """An RDF/XML file with one literal and these declarations before it."""
    start = f"<?xml version='1.0'?>\n<!DOCTYPE r [{declarations}]>\n{opening}"
    return f"{start}<rdf:Description rdf:about='x:a'><x:p>{text}</x:p></rdf:Description></rdf:RDF>"


def repeated_column(*names: str) -> pa.Table:
    return pa.Table.from_arrays([pa.array(["a"])] * len(names), names=list(names))


BAD = [
    # name, files, arguments, message
    ("missing file", {}, ["info", "--source", "no.tsv", "--target", "b.tsv"], "no.tsv: no such file"),
    ("missing folder", {}, ["info", "nowhere"], "nowhere: no such folder"),
    ("missing seeds", {}, ["info", "jape", "--seeds", "no"], "no: no such file"),
    ("empty graph", {"a.tsv": ""}, ["info", *FILES], "a.tsv: is empty"),
    ("empty N-Triples", {"a.nt": ""}, ["convert", "a.nt", "out.tsv"], "a.nt: is empty"),
    ("empty seeds", {"seeds.tsv": ""}, ["info", *FILES], "seeds.tsv: is empty"),
    ("seeds of blank lines", {"seeds.tsv": "\n\n"}, ["info", *FILES], "seeds.tsv: contains no links"),
    ("graph of blank lines", {"a.tsv": "\n\n"}, ["info", *FILES], "a.tsv: contains no triples"),
    ("folder of another kind", {}, ["info", "other"], "other: not a task folder: expected task.json (divea)"),
    ("run as a task", {"run/task/task.json": "{}"}, ["info", "run"], "run: is not a task folder, but has one: run/task"),
    ("file where a folder belongs", {}, ["info", "a.tsv"], "a.tsv: is a file; a task is a folder"),
    ("folder where a file belongs", {}, ["info", "--source", "jape", "--target", "b.tsv"], "jape: is a folder"),
    ("cut .gz", {"a.tsv": gzip.compress(TABLE_TEXT)[:-20]}, ["info", *FILES], "a.tsv: the compressed file is"),
    ("cut .bz2", {"a.tsv": bz2.compress(TABLE_TEXT)[:-20]}, ["info", *FILES], "a.tsv: the compressed file is"),
    ("cut .xz", {"a.tsv": lzma.compress(TABLE_TEXT)[:-20]}, ["info", *FILES], "a.tsv: the compressed file is"),
    ("cut .zst", {"a.tsv": zst(TABLE_TEXT)[:-5]}, ["info", *FILES], "a.tsv: the compressed file is"),
    (
        "cut .gz of N-Triples",
        {"a.nt.gz": gzip.compress(GOOD["a.nt"].encode() * 5000)[:-20]},
        ["convert", "a.nt.gz", "out.tsv"],
        "a.nt.gz: the compressed file is damaged or cut off",
    ),
    ("Latin-1", {"a.tsv": "e1\tr\te2\ncaf\xe9\tr\te2\n".encode("latin-1")}, ["info", *FILES], "a.tsv:2: is not UTF-8"),
    ("UTF-16", {"a.tsv": "e1\tr\te2\n".encode("utf-16")}, ["info", *FILES], "a.tsv:1: contains a NUL byte"),
    ("Latin-1 N-Triples", {"a.nt": b"<x:a> <x:r> <x:b> .\n<x:a> <x:n> \"caf\xe9\" .\n"}, ["convert", "a.nt", "out.tsv"], "a.nt:2: "),
    ("NUL byte", {"a.tsv": "e1\tr\te2\ne2\tr\0\te3\n"}, ["info", *FILES], "a.tsv:2: contains a NUL byte"),
    ("two columns", {"a.tsv": "e1\tr\te2\ne1\te2\n"}, ["info", *FILES], "a.tsv:2: expected 3 columns (head, relation, tail), found 2"),
    ("four columns", {"a.tsv": "e1\tr\te2\ne1\tr\te2\t.\n"}, ["info", *FILES], "a.tsv:2: expected 3 columns (head, relation, tail), found 4"),
    ("two columns, CSV", {"a.csv": "head,relation,tail\ne1,r,e2\ne1,e2\n"}, ["convert", "a.csv", "out.tsv"], "a.csv:3: expected 3 columns"),
    ("empty column", {"a.tsv": "e1\tr\te2\ne1\t\te2\n"}, ["info", *FILES], "a.tsv:2: the column 'relation' is empty"),
    ("seeds of three columns", {"seeds.tsv": "e1\tE1\t1\n"}, ["info", *FILES], "seeds.tsv:1: expected 2 columns (source, target), found 3"),
    ("id without label", {"jape/triples_1": "0\t7\t1\n0\t7\t99\n"}, ["info", "jape"], "triples_1:2: the id 99 has no label in ent_ids_1"),
    ("relation without label", {"jape/triples_1": "0\t5\t1\n"}, ["info", "jape"], "triples_1:1: the id 5 has no label in rel_ids_1"),
    ("relation used as entity", {"jape/triples_1": "0\t7\t1\n0\t7\t7\n"}, ["info", "jape"], "triples_1:2: the id 7 is a relation's (rel_ids_1), used as an entity"),
    ("relation used as a seed", {"seeds.tsv": "r\tE1\n"}, ["info", *FILES], "seeds.tsv: 1 of 1 links name an unknown entity (1 labels: 'r'); 'r' is a relation, not an entity"),
    ("blank id file", {"jape/ent_ids_1": "\r"}, ["info", "jape"], "ent_ids_1: contains no ids"),
    ("id twice", {"jape/ent_ids_1": "0\te1\n0\te2\n"}, ["info", "jape"], "ent_ids_1:2: the id '0' appears twice"),
    ("label twice", {"jape/ent_ids_1": "0\te1\n1\te1\n"}, ["info", "jape"], "ent_ids_1:2: the label 'e1' appears twice"),
    ("N-Triples syntax", {"a.nt": GOOD["a.nt"] + "<x:e1> <x:r> oops .\n"}, ["convert", "a.nt", "out.tsv"], "a.nt:3: not valid RDF"),
    ("Turtle syntax", {"a.ttl": "@prefix x: <x:> .\nx:a x:r\n"}, ["convert", "a.ttl", "out.tsv"], "a.ttl:"),
    ("RDF/XML syntax", {"a.rdf": "<?xml version='1.0'?>\n<rdf:RDF>\n"}, ["convert", "a.rdf", "out.tsv"], "a.rdf:"),
    ("statement about a statement", {"a.ttl": "<x:a> <x:r> <<( <x:a> <x:r> <x:b> )>> .\n"}, ["convert", "a.ttl", "out.tsv"], "a.ttl: has a statement about a statement"),
    ("unknown seed", {"seeds.tsv": "e1\tE1\nstranger\tE2\n"}, ["info", *FILES], "seeds.tsv: 1 of 2 links name an unknown entity (1 labels: 'stranger'); for seeds, --skip-unknown-seeds leaves them out"),
    ("only unknown seeds", {"seeds.tsv": "x\ty\n"}, ["info", *FILES, "--skip-unknown-seeds"], "seeds.tsv: no link names entities of both graphs"),
    ("source in two seeds", {"seeds.tsv": "e1\tE1\ne1\tE2\n"}, ["info", *FILES], "seeds.tsv: 1 source entities are in more than one seed ('e1')"),
    ("target in two seeds", {"seeds.tsv": "e1\tE1\ne2\tE1\n"}, ["info", *FILES], "seeds.tsv: 1 target entities are in more than one seed ('E1')"),
    ("swapped graphs", {}, ["info", "--source", "b.tsv", "--target", "a.tsv", "--seeds", "seeds.tsv"], "seeds.tsv: source and target look swapped: 2 of 2 links fit"),
    ("50 MB literal, N-Triples", {"a.nt": f'<x:a> <x:r> <x:b> .\n<x:a> <x:n> "{LONG}" .\n'}, ["convert", "a.nt", "out.tsv"], "a.nt:2: a line of more than 16 MiB"),
    ("50 MB literal, OpenEA", {"openea/attr_triples_1": f"e1\tn\t{LONG}\n"}, ["info", "openea"], "attr_triples_1:1: a line of more than 16 MiB"),
    ("50 MB literal in Turtle lines", {"a.ttl": '<x:a> <x:n> """' + "long line\n" * 5_000_000 + '""" .\n'}, ["convert", "a.ttl", "out.nt"], "a.ttl: "),
    ("5 MB row", {"openea/attr_triples_1": f"e1\tn\tshort\ne1\tn\t{LONG[:5_000_000]}\n"}, ["info", "openea"], "attr_triples_1:2: a row of 4882 KiB is too long for a table"),
    ("Parquet without columns", {"a.parquet": pa.table({"x": [1]})}, ["convert", "a.parquet", "out.tsv"], "a.parquet: has no column 'head' (found: x)"),
    ("Parquet of floats", {"a.parquet": pa.table({"head": [1.5], "relation": [1], "tail": [2]})}, ["convert", "a.parquet", "out.tsv"], "a.parquet: the column 'head' is of type double"),
    ("Parquet with gaps", {"a.parquet": pa.table({"head": [1, None], "relation": [1, 1], "tail": [2, 3]})}, ["convert", "a.parquet", "out.tsv"], "a.parquet: the column 'head' has 1 missing values"),
    ("cut Parquet", {"a.parquet": b"PAR1\x15\x00\x15"}, ["convert", "a.parquet", "out.tsv"], "a.parquet: not a readable Parquet file"),
    ("graph as seeds", {"seeds.nt": "<x:e1> <x:r> <x:e2> .\n"}, ["info", "--source", "a.tsv", "--target", "b.tsv", "--seeds", "seeds.nt"], "seeds.nt: expected only owl:sameAs statements"),
    ("mappings as a graph", {"m.sssom.tsv": "subject_id\tobject_id\nx:a\tx:b\n"}, ["info", "--source", "m.sssom.tsv", "--target", "b.tsv"], "m.sssom.tsv: contains mappings, not a graph"),
    ("SSSOM without object", {"m.sssom.tsv": "subject_id\tpredicate_id\tobject_id\nx:a\tskos:exactMatch\t\n"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv:2: a row without subject_id or object_id"),
    ("SSSOM with a bad number", {"m.sssom.tsv": "subject_id\tpredicate_id\tobject_id\tconfidence\nx:a\tskos:exactMatch\tx:b\thigh\n"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv:2: 'high' is not a number"),
    ("bad confidence", {"m.tsv": "source\ttarget\tconfidence\na\tb\tvery\n"}, ["convert", "m.tsv", "out.csv"], "m.tsv: the column 'confidence' contains a value that is not a number"),
    ("entity expansion, RDF/XML", {"a.rdf": xml(f"<!ENTITY a0 'ha'>{LAUGHS}", "&a11;")}, ["convert", "a.rdf", "out.nt"], "a.rdf:2: declares the entity 'a1', which is not a plain text of at most 256 characters"),
    ("entity expansion, OAEI", {"a.rdf": xml(f"<!ENTITY a0 'ha'>{LAUGHS}", "&a11;", RDF.replace("http://x.example/", f"{OAEI}#"))}, ["convert", "a.rdf", "out.tsv"], "a.rdf:2: declares the entity 'a1'"),
    ("quadratic expansion", {"a.rdf": xml(f"<!ENTITY a '{'x' * 300}'>", "&a;" * 300)}, ["convert", "a.rdf", "out.nt"], "a.rdf:2: declares the entity 'a'"),
    ("expansion to a long literal", {"a.rdf": xml(f"<!ENTITY a '{'x' * 250}'>", "&a;" * 70_000)}, ["convert", "a.rdf", "out.nt"], "a.rdf:3: a literal of more than 16 MiB"),
    ("external entity", {"a.rdf": xml("<!ENTITY a SYSTEM 'file:///etc/passwd'>", "&a;")}, ["convert", "a.rdf", "out.nt"], "a.rdf:2: declares the entity 'a'"),
    ("parameter entity", {"a.rdf": xml("<!ENTITY % a 'x'>")}, ["convert", "a.rdf", "out.nt"], "a.rdf:2: declares the entity 'a'"),
    ("default attribute", {"a.rdf": xml(f"<!ATTLIST x:p x:q CDATA '{'x' * 999}'>")}, ["convert", "a.rdf", "out.nt"], "a.rdf:2: declares the attribute 'x:q'"),
    ("200,000 nested elements", {"a.rdf": RDF + "<x:A><x:p>" * 100_000}, ["convert", "a.rdf", "out.nt"], "a.rdf:1: more than 1000 elements inside each other"),
    ("200,000 nested elements, OAEI", {"a.rdf": RDF.replace("http://x.example/", f"{OAEI}#") + "<x:A><x:p>" * 100_000}, ["convert", "a.rdf", "out.tsv"], "a.rdf:1: more than 1000 elements"),
    ("2,000 attributes", {"a.rdf": RDF + "<x:A " + " ".join(f"x:p{i}='x'" for i in range(2000)) + "/></rdf:RDF>"}, ["convert", "a.rdf", "out.nt"], "a.rdf:1: a tag with more than 1000 attributes"),
    ("2 MB tag", {"a.rdf": RDF + "<x:A x:p='" + "x\n" * 1_000_000 + "'/></rdf:RDF>"}, ["convert", "a.rdf", "out.nt"], "a.rdf:1: a tag or comment of more than 1 MiB"),
    ("long XML literal", {"a.rdf": RDF + "<rdf:Description rdf:about='x:a'><x:p rdf:parseType='Literal'>" + ("<b>" + "x" * 1000 + "</b>\n") * 18_000 + "</x:p></rdf:Description></rdf:RDF>"}, ["convert", "a.rdf", "out.nt"], "a.rdf:16744: a literal of more than 16 MiB"),
    ("XML in Latin-1", {"a.rdf": b"<?xml version='1.0' encoding='ISO-8859-1'?>\n" + RDF.encode() + b"caf\xe9</rdf:RDF>"}, ["convert", "a.rdf", "out.nt"], "a.rdf:1: has the encoding 'ISO-8859-1', not UTF-8; convert it first"),
    ("XML in an unknown encoding", {"a.rdf": f"<?xml version='1.0' encoding='uf-8'?>\n{RDF}</rdf:RDF>"}, ["convert", "a.rdf", "out.nt"], "a.rdf:1: has the encoding 'uf-8', not UTF-8"),
    ("XML that is not well-formed", {"a.rdf": RDF + "\n<x:A></x:B>"}, ["convert", "a.rdf", "out.nt"], "a.rdf:2: not valid XML: mismatched tag"),
    ("2,000 nested triples", {"a.ttl": "<x:a> <x:b> " + "<<( <x:a> <x:b> " * 2000 + "<x:c>" + " )>>" * 2000 + " ."}, ["convert", "a.ttl", "out.nt"], "a.ttl: has statements about statements (RDF-star)"),
    ("JSON-LD", {"a.jsonld": '{"@id": "x:a", "x:r": {"@id": "x:b"}}'}, ["convert", "a.jsonld", "out.nt"], "a.jsonld: JSON-LD is not supported; convert it to N-Triples first"),
    ("JSON-LD under another name", {"a.json": '[{"@context": {}, "@id": "x:a"}]'}, ["convert", "a.json", "out.nt"], "a.json: JSON-LD is not supported"),
    ("CSV of other columns", {"a.csv": "id,name,year\n1,Alien,1979\n2,Heat,1995\n"}, ["convert", "a.csv", "out.nt"], "a.csv: the first row (id, name, year) names other columns than a graph has: head, relation and tail"),
    ("CSV of other columns as source", {"a.csv": "id,name,year\ntt1,Alien,1979\ntt2,Heat,1995\n"}, ["info", "--source", "a.csv", "--target", "b.tsv"], "a.csv: the first row (id, name, year) names other columns"),
    ("CSV of other columns without numbers", {"a.csv": "id,name,city\n" + "".join(f"p{i},Name {i},City {i % 3}\n" for i in range(9))}, ["convert", "a.csv", "out.nt"], "a.csv: the first row (id, name, city) names other columns"),
    ("RDF of classes only", {"a.ttl": "<x:A> a <http://www.w3.org/2002/07/owl#Class> .\n"}, ["info", "--source", "a.ttl", "--target", "b.tsv"], "a.ttl: contains only classes and properties; --keep-schema aligns them"),
    ("aliases in SSSOM", {"m.sssom.tsv": f"#a0: &a0 [ha]\n{ALIASES}{SSSOM}"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv: the metadata at the top are not valid YAML: aliases (*name) are not supported"),
    ("deep YAML in SSSOM", {"m.sssom.tsv": f"#a: {'[' * 50_000}\n{SSSOM}"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv: the metadata at the top are not valid YAML: it is nested too deeply"),
    ("list as SSSOM metadata", {"m.sssom.tsv": f"#- a\n{SSSOM}"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv: the metadata at the top are not valid YAML: expected curie_map"),
    ("list of prefixes in SSSOM", {"m.sssom.tsv": f"#curie_map: [a]\n{SSSOM}"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv: the metadata at the top are not valid YAML: expected curie_map"),
    ("half a surrogate pair in SSSOM", {"m.sssom.tsv": f'#curie_map: {{x: "\\ud800"}}\n{SSSOM}'}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv: the metadata at the top are not valid YAML: "),
    ("2 MiB of SSSOM metadata", {"m.sssom.tsv": "#" + "x" * (2 << 20) + f"\n{SSSOM}"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv: the metadata at the top are longer than 1 MiB"),
    ("millions of empty lines in SSSOM", {"m.sssom.tsv": zst(SSSOM.encode() + b"\n" * 2_000_000)}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv:1000003: more than 1000000 empty lines"),
    ("SSSOM column twice", {"m.sssom.tsv": "subject_id\tobject_id\tsubject_id\nx:a\tx:b\tx:c\n"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv:1: the column 'subject_id' appears twice"),
    ("SSSOM of Latin-1", {"m.sssom.tsv": SSSOM.encode() + b"x:caf\xe9\tskos:exactMatch\tx:b\n"}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv: is not UTF-8"),
    ("SSSOM with an open quote", {"m.sssom.tsv": SSSOM + '"' + "long line\n" * 2_000_000}, ["convert", "m.sssom.tsv", "out.tsv"], "m.sssom.tsv:3: is not a valid table: field larger than field limit"),
    ("mapping column twice", {"m.tsv": "source\ttarget\tsource\na\tb\tc\n"}, ["convert", "m.tsv", "out.csv"], "m.tsv: the column 'source' appears twice"),
    ("score twice", {"m.csv": "source,target,score,Score\na,b,1,2\n"}, ["convert", "m.csv", "out.tsv"], "m.csv: the column 'score' appears twice"),
    ("mapping column twice, Parquet", {"m.parquet": repeated_column("source", "target", "target")}, ["convert", "m.parquet", "out.tsv"], "m.parquet: the column 'target' appears twice"),
    ("list of scores", {"m.parquet": pa.table({"source": ["a"], "target": ["b"], "score": [[1.5]]})}, ["convert", "m.parquet", "out.tsv"], "m.parquet: the column 'score' is of type list"),
    ("dates as confidence", {"m.parquet": pa.table({"source": ["a"], "target": ["b"], "confidence": pa.array([1], pa.timestamp("s"))})}, ["convert", "m.parquet", "out.tsv"], "m.parquet: the column 'confidence' is of type timestamp[ms], not of numbers"),
    ("text as score, Parquet", {"m.parquet": pa.table({"source": ["a"], "target": ["b"], "score": ["high"]})}, ["convert", "m.parquet", "out.tsv"], "m.parquet: the column 'score' contains a value that is not a number"),
    ("half a rank", {"m.tsv": "source\ttarget\trank\na\tb\t1.5\n"}, ["convert", "m.tsv", "out.csv"], "m.tsv: the column 'rank' contains a value that is not a whole number"),
    ("a rank of 5,000 digits", {"m.tsv": f"source\ttarget\trank\na\tb\t{'9' * 5000}\n"}, ["convert", "m.tsv", "out.csv"], "m.tsv: the column 'rank' contains a value that is not a whole number"),
    ("file name of 300 bytes", {}, ["convert", "x" * 300, "out.tsv"], "cannot be read: File name too long"),
    ("folder name of 300 bytes", {}, ["info", "x" * 300], "cannot be read: File name too long"),
    ("Parquet for a spreadsheet", {}, ["convert", "a.tsv", "out.parquet", "--for-spreadsheet"], "out.parquet: only .tsv and .csv files are for spreadsheets"),
    ("SSSOM for a spreadsheet", {}, ["convert", "seeds.tsv", "out.sssom.tsv", "--for-spreadsheet"], "out.sssom.tsv: only .tsv and .csv files are for spreadsheets"),
    ("task for a spreadsheet", {}, ["convert", "jape", "out", "--for-spreadsheet"], "--for-spreadsheet writes a single file, not a task"),
    ("output folder with other content", {}, ["convert", "jape", "full"], "full: exists already and is not empty"),
    ("synth into other content", {}, ["synth", "full", "--entities", "100"], "full: exists already and is not empty"),
    ("output is a folder", {}, ["convert", "a.tsv", "full"], "full: unknown graph format"),
    ("unknown output format", {}, ["convert", "a.tsv", "out.docx"], "out.docx: unknown graph format"),
    ("unknown layout", {}, ["convert", "jape", "out", "--to", "xml"], "unknown layout 'xml'; choose from divea, jape, openea, parquet"),
    ("output under a file", {}, ["convert", "a.tsv", "b.tsv/x.nt"], "cannot be written"),
    ("task and files at once", {}, ["info", "jape", "--source", "a.tsv"], "name either a task folder, or two graphs"),
    ("source without target", {}, ["info", "--source", "a.tsv"], "give both --source and --target"),
    ("nothing named", {}, ["info"], "name either a task folder, or two graphs"),
    ("three paths", {}, ["convert", "a.tsv", "b.tsv", "c.tsv"], "expected one input and one output"),
    # Names.
    ("missing names", {}, ["info", *FILES, "--source-names", "no.tsv"], "names of the source: expected a file or a property; there is no file 'no.tsv', and the property"),
    ("names of neither kind", {}, ["align", *FILES, "--out", "run", "--target-names", "label"], "names of the target: expected a file or a property; there is no file 'label'"),
    ("folder of names", {}, ["info", *FILES, "--source-names", "jape"], "jape: is a folder, not a file"),
    ("empty names", {"n.tsv": ""}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv: is empty"),
    ("names of blank lines", {"n.tsv": "\n\n"}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv: contains no names"),
    ("names without a row", {"n.tsv": "entity\tname\n"}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv: contains no names"),
    ("binary names", {"n.tsv": bytes(range(256))}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv:1: contains a NUL byte"),
    ("Latin-1 names", {"n.tsv": "e1\tcaf\xe9\n".encode("latin-1")}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv:1: is not UTF-8"),
    ("names of one column", {"n.tsv": "e1\ne2\n"}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv:1: expected 2 columns (entity, name), found 1"),
    ("names of ten columns", {"n.tsv": "\t".join("abcdefghij") + "\n"}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv:1: expected 2 columns (entity, name), found 10"),
    ("names with two columns of a name", {"n.tsv": "entity\tname\tName\ne1\tx\ty\n"}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv: the column 'name' appears twice"),
    ("empty name", {"n.csv": "entity,name\ne1,x\ne2,\n"}, ["info", *FILES, "--source-names", "n.csv"], "n.csv:3: the column 'name' is empty"),
    ("name of nothing", {"n.tsv": "\tx\n"}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv:1: the column 'entity' is empty"),
    ("graph as names", {}, ["info", *FILES, "--source-names", "a.nt"], "a.nt: expected names as TSV, CSV or Parquet, with the columns entity and name"),
    ("triples as names", {}, ["info", *FILES, "--source-names", "a.tsv"], "a.tsv:1: expected 2 columns (entity, name), found 3"),
    ("Parquet without names", {"n.parquet": pa.table({"x": ["e1"]})}, ["info", *FILES, "--source-names", "n.parquet"], "n.parquet: has no column 'entity' (found: x)"),
    ("Parquet with gaps in names", {"n.parquet": pa.table({"entity": ["e1"], "name": pa.array([None], pa.string())})}, ["info", *FILES, "--source-names", "n.parquet"], "n.parquet: the column 'name' has 1 missing values"),
    ("name of an unknown entity", {"n.tsv": "e1\tx\nx\ty\nx\tz\n"}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv: 2 of 3 names are of unknown entities (1: 'x'); --skip-unknown-names leaves them out"),
    ("other header of names", {"n.tsv": "id\tlabel\ne1\ty\n"}, ["info", *FILES, "--source-names", "n.tsv"], "n.tsv: 1 of 2 names are of unknown entities (1: 'id'); if the first line is a header, its columns must be entity and name"),
    ("only unknown names", {"n.tsv": "x\ty\n"}, ["info", *FILES, "--source-names", "n.tsv", "--skip-unknown-names"], "n.tsv: 1 of 1 names are of unknown entities (1: 'x')"),
    ("names of the other graph", {"n.tsv": "e1\tx\ne2\ty\n"}, ["info", *FILES, "--target-names", "n.tsv"], "n.tsv: names the entities of the other graph; swap"),
    ("property that no entity has", {}, ["info", *FILES, "--source-names", "http://x.example/name"], "no entity has a literal of the property 'http://x.example/name'"),
    ("names that no feature uses", {"n.tsv": "e1\tx\n"}, ["align", *FILES, "--out", "run", "--source-names", "n.tsv", "--features", "none"], "n.tsv: these names have no effect: features.name is 'none'"),
    ("names beside a property", {"n.tsv": "e1\tx\n"}, ["align", *FILES, "--out", "run", "--source-names", "n.tsv", "--set", "features.names.source=x:name"], "n.tsv: these names have no effect: features.names.source is 'x:name'"),
    ("property without names", {}, ["align", *FILES, "--out", "run", "--source-names", "urn:x", "--features", "attributes"], "features.names.source has no effect: features.name is 'attributes'"),
    ("unknown names skipped without names", {}, ["info", *FILES, "--skip-unknown-names"], "--skip-unknown-names has no effect without a file of names"),
    ("property for a conversion", {}, ["convert", "openea", "out", "--source-names", "urn:x"], "a property that names entities is for `divea align`; names to convert are a file"),
    ("names for a single file", {"n.tsv": "e1\tx\n"}, ["convert", "a.tsv", "out.nt", "--source-names", "n.tsv"], "--source, --target and --seeds make a task, as names do"),
    ("seeds for a single file", {}, ["convert", "a.tsv", "out.nt", "--seeds", "seeds.tsv"], "--source, --target and --seeds make a task"),
    ("more subtasks than entities", {}, ["divide", "jape", "-n", "9", "-s", "4", "-o", "out"], "subtasks: 9 is more than the 1 unmatched source entities"),
    ("too few entities", {}, ["synth", "out", "--entities", "3"], "entities must be at least 10"),
    ("a share of 2", {}, ["synth", "out", "--matched", "2"], "matched must be between 0 and 1"),
]  # fmt: skip


def write_files(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize("files, arguments, message", [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_refused_with_one_line(tmp_path, monkeypatch, files, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, GOOD | files)
    before = sorted(tmp_path.rglob("*"))
    ended = divea(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.count("\n") == 1, ended.err
    assert ended.err.startswith("divea: ")
    assert message in ended.err
    assert sorted(tmp_path.rglob("*")) == before


def test_unknown_seeds_can_be_skipped(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, GOOD | {"seeds.tsv": "e1\tE1\nstranger\tE2\n"})
    ended = divea("info", *FILES, "--skip-unknown-seeds", "--json")
    assert ended.code == 0
    assert '"seeds": 1' in ended.out


def test_an_unreadable_file_is_refused_with_one_line(tmp_path, monkeypatch):
    """Root may read any file, so the refusal of the operating system is simulated."""
    write_files(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    original = Path.open

    def refuse(self, *arguments, **options):
        if os.fspath(self).endswith("a.tsv"):
            raise PermissionError(13, "Permission denied", os.fspath(self))
        return original(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    ended = divea("info", *FILES)
    assert (ended.code, ended.err) == (2, "divea: a.tsv: cannot be read: Permission denied\n")


def test_a_full_disk_is_reported_and_leaves_nothing_behind(tmp_path, monkeypatch):
    write_files(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)

    def fail(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(io, "sync", fail)
    ended = divea("convert", "jape", "out")
    assert (ended.code, ended.err) == (2, "divea: out: cannot be written: No space left on device\n")
    assert not list(tmp_path.glob(".*partial*"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "pipe", "out.tsv"],
        ["info", "--source", "pipe", "--target", "b.tsv"],
        ["info", "--source", "a.tsv", "--target", "b.tsv", "--seeds", "pipe"],
    ],
    ids=["convert", "source", "seeds"],
)
@pytest.mark.parametrize("name", ["pipe", "pipe.nt", "pipe.rdf", "pipe.parquet", "pipe.sssom.tsv"])
def test_a_pipe_is_refused_and_never_waited_for(tmp_path, monkeypatch, arguments, name):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, GOOD)
    os.mkfifo(name)
    ended = divea(*(name if argument == "pipe" else argument for argument in arguments))
    assert (ended.code, ended.err) == (2, f"divea: {name}: is not a regular file\n")
