"""The documentation keeps up with the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_module_stands_on_the_architecture_page():
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = set(re.findall(r"^\| `([^`]+\.py)`", page, re.MULTILINE))
    package = ROOT / "src" / "divea"
    modules = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.name != "__init__.py" or path.parent == package
    }
    assert listed == modules


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_machine_is_named():
    # Absolute paths of a machine, and registries' host names, stay out of the repository.
    import subprocess

    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    bad = re.compile(r"/(?:work|root|home)/[a-z]|pypi\.|registry\.npmjs")
    for name in files.stdout.split():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt"} and path != Path(__file__):
            found = bad.search(path.read_text())
            assert found is None, f"{name}: {found}"
