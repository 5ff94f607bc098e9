"""Fills in the parts of the pages between <!-- generated: KIND NAME --> and <!-- end -->.

With --check nothing is written, and the exit code is 1 if a page is out of date or misses a name.
"""

import ast
import inspect
import json
import re
import sys
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from textwrap import fill

from typer.utils import get_params_from_function

import divea
from divea.cli.app import app
from divea.config.group import allowed, resolved

COMMANDS = {one.callback.__name__.replace("_", "-"): one.callback for one in app.registered_commands}
MISSING = {*(f"command {name}" for name in COMMANDS), *(f"api divea:{name}" for name in divea.__all__)}
KINDS = "api|command|modules|settings|signature"
PART = re.compile(rf"(<!-- generated: ({KINDS}) (\S+) -->).*?(<!-- end -->)", re.DOTALL)


def _table(rows):
    return "\n".join("| " + " | ".join(" ".join(cell.split()) for cell in row) + " |" for row in rows)


def command(name):
    """The description, the examples and the options of a command."""
    paragraphs = inspect.getdoc(COMMANDS[name]).split("\n\n")
    yield from (fill(text, 100) for text in paragraphs if not text.startswith((" ", "Example")))
    yield "\n".join(["```", *(text.strip() for text in paragraphs if text.startswith(" ")), "```"])
    rows = [("option", "default", "meaning"), ["---"] * 3]
    for one in get_params_from_function(COMMANDS[name]).values():
        about, value = one.default, one.default.default
        names = about.param_decls or [f"--{one.name.replace('_', '-')}"]
        names = [about.metavar or one.name.upper()] if about.param_decls is None else names
        shown = "required" if value is ... else "" if isinstance(value, bool | None) else f"`{value}`"
        rows.append((", ".join(f"`{text}`" for text in names), shown, about.help))
    yield _table(rows)


def settings(name, node=None, schema=None, path=""):
    """One table per group of settings."""
    schema = schema or resolve_name(name).model_json_schema()
    children = {key: resolved(child, schema) for key, child in (node or schema)["properties"].items()}
    if node:
        yield f"### {path[:-1]}\n\n" + fill(node["description"].partition("\n\n")[0], 100)
    rows, groups = [("setting", "default", "allowed", "meaning"), ["---"] * 4], []
    for key, child in children.items():
        if "properties" in child:
            groups.append((child, f"{path}{key}."))
        else:
            default, values = f"`{json.dumps(child['default'])}`", allowed(child, schema)
            rows.append((f"`{path}{key}`", default, values, child["description"]))
    yield _table(rows)
    for child, below in groups if path != "last_model." else ():  # last_model has the options of model
        yield from settings(name, child, schema, below)


def signature(name):
    """A signature, with annotations as they are written in the code."""
    text = name.partition(":")[2] + str(inspect.signature(resolve_name(name))).replace("<factory>", "...")
    text = re.sub(r"\(self(, )?", "(", re.sub(r"(: |-> )'(.*?)'", r"\1\2", text))
    text = re.sub(r"(?<!,) ", "\xa0", text)  # lines break after commas
    yield "```text\n" + fill(text, 100, subsequent_indent="    ").replace("\xa0", " ") + "\n```"


def api(name):
    """The signature and the docstring of a function; of a class, also those of its members."""
    found = resolve_name(name)
    if not hasattr(found, "model_fields"):  # a page of its own lists the settings
        yield from signature(name)
    yield from _prose(inspect.getdoc(found))
    if not inspect.isclass(found):
        return
    members = {key: one for key, one in vars(found).items() if not key.startswith("_")}
    values = {key: one for key, one in members.items() if isinstance(one, property | cached_property)}
    rows = [(f"`{key}`", one.__doc__) for key, one in values.items() if one.__doc__]
    if rows:
        yield _table([("attribute", "meaning"), ["---"] * 2, *rows])
    for key, one in members.items():
        if inspect.isfunction(getattr(one, "__func__", one)) and one.__module__.startswith("divea."):
            yield f"#### {found.__name__}.{key}"
            yield from signature(f"{name}.{key}")
            yield from _prose(inspect.getdoc(one))


def _prose(docstring):
    """A docstring in Markdown: paragraphs, a table of parameters, and examples."""
    text, *sections = re.split(r"^(\w+)\n-+\n", docstring + "\n", flags=re.MULTILINE)
    yield from (fill(paragraph, 100) for paragraph in text.strip().split("\n\n"))
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        if title == "Parameters":
            parts = re.findall(r"^(\S.*)\n((?:(?: +.*)?\n)+)", body, re.MULTILINE)
            rows = [(", ".join(f"`{one}`" for one in names.split(", ")), about) for names, about in parts]
            yield _table([("parameter", "meaning"), ["---"] * 2, *rows])
        elif title == "Examples":
            yield "```pycon\n" + re.sub(r" +# doctest:.*", "", body).strip() + "\n```"


def modules(name):
    """A table of modules per package, with the first sentence of each module's docstring."""
    root = Path(divea.__file__).parent
    packages = {".": "The top", **{path.parent.name: "" for path in sorted(root.glob("*/__init__.py"))}}
    for package in packages:
        if package != ".":
            yield f"### `{package}`\n\n" + fill(_docstring(root / package / "__init__.py", 1000), 100)
        else:
            yield "### The top"
        rows = [("module", "what it is"), ["---"] * 2]
        for path in sorted((root / package).glob("*.py")):
            if path.name != "__init__.py" or package == ".":
                rows.append((f"`{path.relative_to(root)}`", _docstring(path, 1)))
        yield _table(rows)


def _docstring(path, paragraphs):
    text = ast.get_docstring(ast.parse(path.read_text())).split("\n\n")[:paragraphs]
    return " ".join(" ".join(text).split())


if __name__ == "__main__":
    stale = []
    for page in sorted(Path(__file__).parent.rglob("*.md")):
        text = page.read_text()
        new = PART.sub(lambda part: "\n\n".join([part[1], *globals()[part[2]](part[3]), part[4]]), text)
        MISSING -= {f"{kind} {name}".partition(".")[0] for _, kind, name, _ in PART.findall(text)}
        stale += [page.name] * (new != text)
        if "--check" not in sys.argv:
            page.write_text(new)
    print("out of date:", stale or "nothing", "- missing:", sorted(MISSING) or "nothing")
    sys.exit(bool(MISSING or (stale and "--check" in sys.argv)))
