"""Messages below the command line name arguments in Python, and options for users of the command."""

import ast
import inspect
import re
from pathlib import Path

import pytest
import typer

import divea
from divea.cli.app import app
from divea.loop.features import starting_pairs
from divea.wording import command_line, worded
from tests.command_line import divea as command
from tests.command_line import python

PACKAGE = Path(divea.__file__).parent
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
COMMAND = re.compile(r"`divea [a-z]|\b(the|this|same) command\b")
ARGUMENT = re.compile(r"\b([a-z_]+)=")


def below_the_command_line():
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] != "cli"]
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in paths}


def without_docstrings(tree):
    """Every text of a module but the statements that are nothing but text: docstrings of all kinds."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented
    ]


def wordings(tree):
    """The calls of `worded`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) == "worded"]


def texts(node):
    return [
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def argument_of(call, name):
    (found,) = (keyword.value for keyword in call.keywords if keyword.arg == name)
    return found


MODULES = below_the_command_line()
WORDINGS = [(name, call) for name, tree in MODULES.items() for call in wordings(tree)]


def test_there_are_wordings():
    assert len(MODULES) > 150 and len(WORDINGS) >= 12


SAME_FOR_ALL = {"report/page.py"}
"""A report shows a command: it goes to other people, and has the same bytes whoever makes it."""


@pytest.mark.parametrize("name", sorted({*MODULES} - SAME_FOR_ALL))
def test_a_message_names_options_and_commands_only_for_users_of_the_command(name):
    for_command = {
        id(part) for call in wordings(MODULES[name]) for part in ast.walk(argument_of(call, "command"))
    }
    for text in without_docstrings(MODULES[name]):
        if id(text) not in for_command:
            found = OPTION.search(text.value) or COMMAND.search(text.value)
            # A program is started with options, and the variables of a style sheet look like options.
            is_program = text.value.startswith("-") and " " not in text.value
            is_style = "var(--" in text.value
            assert found is None or is_program or is_style, (
                f"{text.value!r} on line {text.lineno}: use divea.wording"
            )


def parameters():
    """The arguments of everything that is public, and the settings, which are arguments of `divea.align`."""
    found = {*divea.Settings.model_fields}
    for name in divea.__all__:
        public = getattr(divea, name)
        for function in [public, *(vars(public).values() if inspect.isclass(public) else ())]:
            if callable(function):
                found |= {*inspect.signature(function).parameters}
    return found


def options():
    commands = typer.main.get_command(app).commands.values()
    return {option for one in commands for item in one.params for option in item.opts}


@pytest.mark.parametrize(
    ("name", "call"), WORDINGS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_wordings_name_options_and_arguments_that_exist(name, call):
    for text in texts(argument_of(call, "command")):
        assert {*OPTION.findall(text)} <= options()
    for text in texts(argument_of(call, "python")):
        assert {*ARGUMENT.findall(text)} <= parameters()
        for public in re.findall(r"\b(?:divea\.|)(align|make_task|read_task|export)\b", text):
            assert hasattr(divea, public) or hasattr(divea.Alignment, public)


def test_the_words_are_those_of_the_reader():
    words = {"command": "--out RUN", "python": "out=RUN"}
    assert worded(**words) == "out=RUN"
    with pytest.raises(ZeroDivisionError), command_line():
        assert worded(**words) == "--out RUN"
        raise ZeroDivisionError
    assert worded(**words) == "out=RUN"


def test_the_same_mistake_in_both_ways(tmp_path):
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text("e1\tr\te2\n")
    (tmp_path / "seeds.tsv").write_text("e1\te1\nstranger\te2\n")
    files = [tmp_path / name for name in ("a.tsv", "b.tsv", "seeds.tsv")]
    ended = command("info", "--source", files[0], "--target", files[1], "--seeds", files[2])
    assert ended.err.endswith("--skip-unknown-seeds leaves them out\n")
    with pytest.raises(divea.InputError, match="skip_unknown_seeds=True leaves them out"):
        divea.make_task(*files)
    with pytest.raises(divea.InputError, match=r"a task is a folder, or divea\.make_task takes two graphs"):
        divea.read_task(files[0])
    assert "or use --source and --target" in command("info", files[0]).err


def test_what_to_give_an_alignment_that_has_nothing_to_start_from():
    task = divea.make_task([("a", "r", "b")], [("c", "s", "d")])
    with pytest.raises(divea.InputError, match=r"give seeds to divea\.make_task .*, or source_names= and"):
        starting_pairs(task, ())
    message = "give seeds with --seeds, or names with --source-names and --target-names"
    with command_line(), pytest.raises(divea.InputError, match=message):
        starting_pairs(task, ())


def test_a_fresh_process_words_messages_for_python():
    code = "import divea.cli.app\nfrom divea.wording import worded\nprint(worded(command='c', python='p'))"
    assert python(code) == "p"
