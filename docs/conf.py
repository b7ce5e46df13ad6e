"""Builds the site: `make docs` writes docs/_build/html."""

import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.ext.autodoc.mock import _MockObject
from sphinx.pycode import ModuleAnalyzer

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "src"))

import pbim  # noqa: E402 - this clone's pbim, whatever is installed
from pbim._extras import EXTRAS  # noqa: E402

project = "pbim"
author = "The pbim developers"
project_copyright = author
version = release = pbim.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build", "results/**"]
templates_path = ["_templates"]
nitpick_ignore_regex = [("py:.*", ".*")]  # types of other libraries

# Pages. Links between them and to headings are checked: a broken one is a warning, and warnings are errors.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = True

# Tutorials run when the site is built. (With "cache", the notebook that a reader downloads has no outputs: myst-nb then
# writes the one from before the run.)
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

# The reference. An adapter's page needs no framework: what is not installed is mocked.
autosummary_generate = True
autosummary_imported_members = True
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
MISSING = {
    name for name in (*EXTRAS, "envpool", "gymnax", "navix", "tensordict", "xminigrid") if find_spec(name) is None
}
autodoc_mock_imports = sorted(MISSING | ({"ray"} if "tree" in MISSING else set()))  # RLlib does not import without tree
_MockObject.__or__ = _MockObject.__ror__ = lambda self, _other: self  # hints such as AlgorithmConfig | None
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"pbim {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False


def offer_notebook(_app, docname, source):
    """Let a reader download a tutorial as a Jupyter notebook, with the outputs of the build."""
    if docname.startswith("tutorials/"):
        link = f"{{nb-download}}`Download this page as a notebook <{docname.removeprefix('tutorials/')}.ipynb>`"
        source[0] = re.sub(r"^(# .*)$", rf"\1\n\n{link}", source[0], count=1, flags=re.M)


def open_instead_of_download(app, doctree):
    """Let links to published results open in the site, where they stand under the same path as in the repository."""
    page = Path(app.env.doc2path(app.env.docname)).parent
    for node in list(doctree.findall(addnodes.download_reference)):
        target = (page / node["reftarget"]).resolve()
        if target.is_relative_to(DOCS / "results"):
            link = nodes.reference("", "", *node.children, refuri=node["reftarget"])
            node.replace_self(link)
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node["reftarget"] == "results":  # the folder: the site has a page that lists it
            node.replace_self(nodes.reference("", "", *node.children, refuri="evidence.html"))


def escape_shapes(_app, _what, _name, _obj, _options, lines):
    """Keep |x| and (*batch, 1) of a docstring as they are: to reStructuredText they would be markup."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            escaped = re.sub(r"(`.*?`)|(?<!\\)\|", lambda found: found[1] or r"\|", line)
            lines[number] = re.sub(r"\(\*(?=\w)", r"(\*", escaped)


def share_words(_app):
    """Let a package know the words below the constants and aliases that it imports from its modules.

    Autodoc looks for them in the module of the name alone, and else shows what Python says about a str or a Union.
    """
    source = DOCS.parent / "src"
    for package in (source / "pbim").rglob("__init__.py"):
        name = ".".join(package.parent.relative_to(source).parts)
        words = ModuleAnalyzer.for_module(name).find_attr_docs()
        for path in set(package.parent.glob("*.py")) - {package}:
            for place, lines in ModuleAnalyzer.for_file(path, f"{name}.{path.stem}").find_attr_docs().items():
                words.setdefault(place, lines)


def copy_reports(app, exception):
    """Copy the reports and figures of published results into the site; the rows stay in the repository."""
    if exception is not None or app.builder.format != "html":
        return
    for report in sorted((DOCS / "results").glob("*/report")):
        place = Path(app.outdir, report.relative_to(DOCS))
        shutil.copytree(report, place, dirs_exist_ok=True)
    for curves in sorted((DOCS / "results").rglob("*.csv")):
        place = Path(app.outdir, curves.relative_to(DOCS))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(curves, place)


def setup(app):
    """Connect the steps that Sphinx has no setting for."""
    app.connect("builder-inited", share_words)
    app.connect("source-read", offer_notebook)
    app.connect("autodoc-process-docstring", escape_shapes, priority=400)
    app.connect("doctree-read", open_instead_of_download, priority=100)  # before downloads are collected
    app.connect("build-finished", copy_reports)
