"""The site: short enough to read, and, where it was built (make docs), without a broken link."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HTML = DOCS / "_build" / "html"
EVIDENCE = {"reproduction.md", "alternatives.md", "evidence.md", "guidance.md", "matrix.md"}
MOST_WORDS = 12_000


def prose(page: Path) -> list[str]:
    """Return the words of a page outside of code: what has a letter."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    return [word for word in text.split() if re.search(r"[A-Za-z]", word)]


def pages() -> list[Path]:
    """Return the pages that somebody wrote: not the reference, not what was built."""
    return [*DOCS.glob("*.md"), *(DOCS / "tutorials").glob("*.md"), *(DOCS / "adapters").glob("*.md")]


def test_docs_outside_reference_and_evidence_stay_short():
    counts = {str(page.relative_to(DOCS)): len(prose(page)) for page in pages() if page.name not in EVIDENCE}
    assert sum(counts.values()) <= MOST_WORDS, counts


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text()
    for page in pages():
        name = str(page.relative_to(DOCS).with_suffix(""))
        assert name == "index" or re.search(rf"^{re.escape(name)}$", index, re.M), f"docs/index.md lacks {name}"


def test_every_published_report_is_linked():
    page = (DOCS / "evidence.md").read_text()
    for report in DOCS.glob("results/*/report/index.html"):
        assert str(report.relative_to(DOCS)) in page


class Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.anchors = set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            elif value and ((tag == "a" and name == "href") or (tag == "img" and name == "src")):
                self.links.add(value)


BUILT = pytest.mark.skipif(not (HTML / "index.html").exists(), reason="make docs builds the site")


@BUILT
def test_a_reader_can_download_each_tutorial_as_a_notebook_with_outputs():
    for page in (DOCS / "tutorials").glob("*.md"):
        built = HTML / "tutorials" / f"{page.stem}.html"
        (link,) = (link for link in Links(built.read_text()).links if link.endswith(".ipynb"))
        cells = [each for each in json.loads((built.parent / link).read_text())["cells"] if each["cell_type"] == "code"]
        assert len(cells) == page.read_text().count("```{code-cell}")
        assert any(cell["outputs"] for cell in cells)


@BUILT
def test_every_name_of_the_reference_has_a_sentence_of_ours():
    """Autosummary gives an alias nothing, a str what Python says about str, and stops at "Eq." (see share_words)."""
    wrong = []
    for page in (HTML / "api").glob("*.html"):
        for row in re.findall(r"<tr class=\"row-(?:odd|even)\">(.*?)</tr>", page.read_text(), re.S):
            cells = [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td>(.*?)</td>", row, re.S)]
            words = cells[-1].strip()
            whole = words.endswith((".", "?")) and not words.endswith((" .", "Eq.", " al."))
            if len(cells) == 2 and (not whole or words.startswith(("str(", "Represent a"))):
                wrong.append(f"{cells[0].strip()}: {words}")
    assert not wrong


@BUILT
def test_no_link_of_the_built_site_is_broken():
    pages = {path: Links(path.read_text()) for path in HTML.rglob("*.html") if "results" not in path.parts}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            file = file / "index.html" if file.is_dir() else file
            lost = target.fragment and file in pages and unquote(target.fragment) not in pages[file].anchors
            if not file.exists() or lost:
                broken.append(f"{path.relative_to(HTML)} -> {link}")
    assert not broken
