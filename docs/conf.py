"""The documentation site: `make docs` builds it from the pages as they are in the repository.

The source folder of Sphinx is the root of the repository, so that the pages there (CONTRIBUTING.md,
CHANGELOG.md, SECURITY.md) belong to the site and links between pages are the same as on GitHub.
"""

from divea import __version__

project = "divea"
author = "The divea authors"
release = __version__
# Without a date, the same pages give the same site.
project_copyright = author

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/**/*.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]

# Anchors of headings as GitHub makes them.
myst_heading_anchors = 4
# The pages are GitHub's Markdown; these two exist in neither the pages nor on GitHub.
myst_disable_syntax = ["myst_role", "myst_line_comment"]
highlight_language = "text"
# Quotation marks stay as they are written: many are part of code.
smartquotes = False
# A reference that leads nowhere is a warning, and `make docs` turns warnings into errors.
nitpicky = True

html_theme = "furo"
html_title = "divea"
html_extra_path = ["site/index.html"]
html_static_path = ["site/static"]
html_css_files = ["divea.css"]
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}

# A page that is in none of these lists is a warning. A star stands for the pages that are not named.
NAVIGATION = {
    "Tutorials": [
        "docs/tutorials/names",
        "docs/tutorials/seeds",
        "docs/tutorials/large",
        "docs/tutorials/review",
    ],
    "How-to guides": [
        "docs/guide/questions",
        "docs/guide/align",
        "docs/guide/review",
        "docs/guide/python",
        "docs/guide/names",
        "docs/guide/features",
        "docs/guide/large",
        "docs/guide/cluster",
        "docs/guide/evaluate",
    ],
    "Reference": [
        "docs/reference/commands",
        "docs/reference/settings",
        "docs/reference/api",
        "docs/reference/formats",
        "docs/reference/run-directory",
        "docs/glossary",
    ],
    "Notes": ["docs/notes/results", "docs/notes/*"],
    "Project": ["docs/architecture", "CONTRIBUTING", "CHANGELOG", "SECURITY"],
}


def add_navigation(app, name, source):
    """Append the navigation to the start page, which shows plain Markdown on GitHub."""
    if name == root_doc:
        for caption, pages in NAVIGATION.items():
            lines = [f":caption: {caption}", ":hidden:", ":glob:", "", *(f"/{page}" for page in pages)]
            source[0] += "\n".join(["\n```{toctree}", *lines, "```\n"])


def setup(app):
    """Sphinx calls this."""
    app.connect("source-read", add_navigation)
