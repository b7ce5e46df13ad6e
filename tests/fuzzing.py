"""Thousands of damaged files of every kind we store: python tests/fuzzing.py --count 2000 (or make fuzz).

The law: what is read back is equal to what was written, or one sentence names it, and it is set aside and redone. A
folder of an older pbim has no checksums: there damage may read back as other numbers ("changed"), but nothing other
than our own error is raised. Parquet without checksums is left out: polars ends the process where a damaged footer
claims more memory than there is.
"""

import argparse
import json
import random
import re
import shutil
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pbim._files import read_arrays, write_arrays
from pbim.errors import InputError
from pbim.report import evidence
from pbim.report.archive import ARRAYS, CURVES, RUNS, publish
from pbim.report.evidence import gather
from pbim.report.page import render
from pbim.results import (
    CERTIFICATE,
    CHECKSUMS,
    CONFIG,
    FINAL,
    METRICS,
    STATUS,
    STUDY,
    Corrupt,
    Store,
)
from report.stores import write_cliff

EQUAL, NAMED, REDONE, CHANGED = "read back equal", "named and set aside", "redone", "changed"


# --- damage ---


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return other bytes than ``content``: any mutation, those that know the format more often than not."""
    known = [mutate for mutate in FORMATS if mutate(content, rng) is not None]
    for _ in range(100):
        mutate = rng.choice([*BYTES, *known, *known])
        found = mutate(content, rng)
        if found is not None and found != content:
            return found
    return content + b"\0"


def flip(content: bytes, rng: random.Random) -> bytes:
    """One to eight bits."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.choice((0, 1, 4, len(content) - 1, rng.randrange(len(content))))]


def splice(content: bytes, rng: random.Random) -> bytes:
    """Bytes of another place, zeros or noise, over or between what was there."""
    size, place = rng.choice((1, 4, 8, 16, 64, 512)), rng.randrange(len(content))
    start = rng.randrange(len(content))
    new = rng.choice((content[start : start + size], bytes(size), rng.randbytes(size)))
    return content[:place] + new + content[place + rng.choice((0, len(new))) :]


def extend(content: bytes, rng: random.Random) -> bytes:
    return content + rng.choice((b"\0", b"\n", b"{}", content, rng.randbytes(100)))


def header_size(content: bytes, rng: random.Random) -> bytes | None:
    """The length of a header: parquet's and the zip directory at the end, safetensors' at the start."""
    huge = rng.choice((0, 1, 7, 1 << 16, 0x7FFFFFFF, 0xFFFFFFFF))
    if content.endswith(b"PAR1"):
        return content[:-8] + struct.pack("<I", huge) + b"PAR1"
    if content[:2] == b"PK":
        place = rng.choice([found.start() for found in re.finditer(b"PK(\x01\x02|\x03\x04|\x05\x06)", content)])
        field = place + rng.choice((14, 18, 20, 22, 24, 26, 28))
        return content[:field] + struct.pack("<I", huge) + content[field + 4 :]
    if _safetensors(content) is not None:
        return struct.pack("<Q", huge << rng.choice((0, 16, 32))) + content[8:]
    return None


def numbers_in_header(content: bytes, rng: random.Random) -> bytes | None:
    """The shapes and types that an .npy header claims: terabytes, objects (a pickle), texts."""
    if b"\x93NUMPY" not in content:
        return None
    place = rng.choice([found.start() for found in re.finditer(b"\x93NUMPY", content)])
    head = content[place : place + 128]
    old, new = rng.choice(
        (
            (rb"\(\d+", b"(%d" % rng.choice((0, 10**6, 10**12, 10**18))),
            (rb"'<[fi][48]'", rng.choice((b"'|O'  ", b"'<U9' ", b"'<f8' ", b"'<c16'", b"'V8'  "))),
            (rb"False", b"True "),
        )
    )
    changed = re.sub(old, lambda _: new, head, count=1)[:128]
    return content[:place] + changed.ljust(128) + content[place + 128 :]


def other_json(content: bytes, rng: random.Random) -> bytes | None:
    """A value of another type, a missing name, nesting without end, in JSON or the JSON header of safetensors."""
    header = _safetensors(content)
    try:
        data = json.loads(content) if header is None else header
    except ValueError:
        return None
    text = _swapped(data, rng)
    if header is None:
        return text
    return struct.pack("<Q", len(text)) + text + content[8 + struct.unpack("<Q", content[:8])[0] :]


def other_line(content: bytes, rng: random.Random) -> bytes | None:
    """The same for a file of JSON lines."""
    lines = content.splitlines(keepends=True)
    if len(lines) < 2 or not all(line.startswith(b"{") and line.endswith(b"}\n") for line in lines):
        return None
    index = rng.randrange(len(lines))
    lines[index] = _swapped(json.loads(lines[index]), rng) + b"\n"
    return b"".join(lines)


def _safetensors(content: bytes) -> Any:
    try:
        return json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]]) if content[8:9] == b"{" else None
    except (ValueError, struct.error, OverflowError):
        return None


def _swapped(data: Any, rng: random.Random) -> bytes:
    places = list(_places(data))
    mark = "\0here\0"
    value: Any = rng.choice(
        (None, True, 0, -1, 1e308, 10**30, "", "../../x", "<b>", [], {}, [None], {"a": []}, mark, mark, mark)
    )
    if not places:
        data = value
    else:
        holder, name = rng.choice(places)
        if rng.random() < 0.2:
            del holder[name]
        else:
            holder[name] = value
    deep = rng.choice((500, 5000, 200_000))
    raw = rng.choice(
        (b"NaN", b"1e999", b'"\\ud800"', b'"\xff"', b"[" * deep + b"]" * deep, b'{"a":' * deep + b"1" + b"}" * deep)
    )
    return json.dumps(data).encode().replace(json.dumps(mark).encode(), raw)


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, part in list(parts):
        yield data, name
        yield from _places(part)


BYTES = (flip, truncate, splice, extend)
FORMATS = (header_size, numbers_in_header, other_json, other_line)


# --- what is read ---


def sentence(error: Exception) -> str:
    """Check that an error is one sentence, and return the outcome."""
    text = str(error)
    assert "\n" not in text, text
    assert len(text) < 1500, text[:200]
    return NAMED


def same(one: Any, other: Any) -> bool:
    """Tell whether two pieces of evidence are the same, NaN being NaN."""
    return repr(one) == repr(other)


def contents_of(run: Any) -> tuple[Any, ...]:
    arrays = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in run.arrays().items()}
    return (
        run.config,
        run.status,
        run.metrics().to_dict(as_series=False),
        run.metrics().schema,
        arrays,
        run.certificate(),
    )


class Folder:
    """A folder with one file to damage, as it was written; ``read`` says what became of the damage."""

    def __init__(self, home: Path, file: str, read: Callable[["Folder"], str]) -> None:
        self.home, self.file, self.read = home, file, read
        self.path = home / file
        self.content = self.path.read_bytes()
        self.before: Any = None

    def damage(self, content: bytes) -> str:
        """Return what becomes of a folder with other bytes in the file, and put the folder in order again."""
        self.path.write_bytes(content)
        try:
            return self.read(self)
        finally:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_bytes(self.content)


class RunFolder(Folder):
    """A store with one finished run, one file of which is damaged."""

    def __init__(self, home: Path, name: str) -> None:
        self.store = Store(home)
        self.plan = self.store.plan()
        (cell,) = (cell for cell in self.plan.cells if cell.name == "pbim")
        self.key = cell.runs[0].key
        super().__init__(home, f"runs/{self.key}/{name}", RunFolder.judge)
        self.before, self.sealed = contents_of(self.store.run(self.key)), (self.path.parent / CHECKSUMS).exists()
        self.aside = home / "set-aside" / f"{self.key}-1"

    def judge(self) -> str:
        run = self.store.run(self.key)
        error = self.store.mend(run, lambda run: evidence.check(run, self.plan))
        if error is not None:
            assert isinstance(error, Corrupt)
            assert self.key in str(error)
            assert self.store.run(self.key).state == "waiting"
            shutil.move(self.aside, self.store.folder(self.key))
            return sentence(error)
        if not self.sealed:
            (run.folder / CHECKSUMS).unlink(missing_ok=True)
        if run.state != "done":
            return REDONE
        return EQUAL if same(contents_of(run), self.before) else CHANGED


def plan_outcome(folder: Folder) -> str:
    store = Store(folder.home)
    try:
        found = store.plan()
        if not same(found, folder.before):
            render(gather(folder.home))  # what reads, a report can show
    except InputError as error:
        return sentence(error)
    return EQUAL if same(found, folder.before) else CHANGED


def archive_outcome(folder: Folder) -> str:
    try:
        found = summary(folder.home)
        if found != folder.before:
            render(gather(folder.home))
    except InputError as error:
        return sentence(error)
    return EQUAL if found == folder.before else CHANGED


def summary(archive: Path) -> str:
    found = gather(archive)
    arrays = [{name: array.tobytes() for name, array in entry.arrays.items()} for entry in found.runs]
    curves = [{name: curve.tobytes() for name, curve in entry.curves.items()} for entry in found.runs]
    about = [(entry.run, entry.figures, entry.certificate) for entry in found.runs]
    return repr((found.study, found.verdicts, about, arrays, curves))


def arrays_outcome(folder: Folder) -> str:
    try:
        found = read_arrays(folder.path)
    except InputError as error:
        return sentence(error)
    return EQUAL if same({name: array.tobytes() for name, array in found.items()}, folder.before) else CHANGED


def checkpoint_outcome(folder: Folder) -> str:
    from pbim.training import checkpoint

    try:
        found = checkpoint.load(folder.path, folder.like, config=CONFIG_TEXT)
        about = checkpoint.about(folder.path)
    except InputError as error:
        return sentence(error)
    return EQUAL if (checkpoint.digest(found), about) == folder.before else CHANGED


def lines_outcome(folder: Folder) -> str:
    from pbim.training.run import forget_after

    try:
        forget_after(folder.path, 10**6)
    except InputError as error:
        return sentence(error)
    return EQUAL if folder.path.read_bytes() == folder.content else CHANGED


CONFIG_TEXT = '{"learner": {"kind": "ppo"}, "seed": 0}'


def kinds(home: Path) -> dict[str, Folder]:
    """Return one folder per kind of file, written by the real components."""
    import jax

    from pbim.training import checkpoint

    found: dict[str, Folder] = {}
    for sealed in (True, False):
        how = "" if sealed else ", no checksums"
        store = write_cliff(home / f"store{sealed:d}", seeds=1, episodes=40)
        published = home / f"published{sealed:d}"
        publish(gather(store), published)
        if not sealed:
            for sums in [*store.rglob(CHECKSUMS), *published.rglob(CHECKSUMS)]:
                sums.unlink()
        for name in (CONFIG, STATUS, FINAL, CERTIFICATE, *([METRICS, CHECKSUMS] * sealed)):
            found[f"run: {name}{how}"] = RunFolder(store, name)
        plan = found[f"plan: {STUDY}{how}"] = Folder(store, STUDY, plan_outcome)
        plan.before = Store(store).plan()
        for name in (STUDY, ARRAYS, *([RUNS, CURVES, CHECKSUMS] * sealed)):
            archive = found[f"published: {name}{how}"] = Folder(published, name, archive_outcome)
            archive.before = summary(published)
    state = {"a": np.arange(6.0).reshape(2, 3), "n": np.arange(4), "key": jax.random.key(7)}
    checkpoint.save(home / "checkpoint.pbim", state, config=CONFIG_TEXT, about={"seconds": 1.5, "frames": 12})
    saved = found["checkpoint: checkpoint.pbim"] = Folder(home, "checkpoint.pbim", checkpoint_outcome)
    saved.like, saved.before = state, (checkpoint.digest(state), checkpoint.about(home / "checkpoint.pbim"))
    plain = {"ledger": np.arange(8.0), "count": np.arange(3)}
    write_arrays(home / "state.npz", plain)
    found["state: state.npz, no checksums"] = Folder(home, "state.npz", arrays_outcome)
    found["state: state.npz, no checksums"].before = {name: array.tobytes() for name, array in plain.items()}
    rows = [{"frames": 128 * n, "length": 10.5, "residual": None} for n in range(1, 9)]
    (home / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found["log: metrics.jsonl, no checksums"] = Folder(home, "metrics.jsonl", lines_outcome)
    return found


def fuzz(count: int, seed: int, only: str = "") -> dict[str, Counter[str]]:
    """Damage every kind of file ``count`` times, or those with ``only`` in their name; returns the outcomes.

    Raises:
        AssertionError: With the damage that broke the law.

    """
    outcomes: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory(prefix="pbim-fuzz-") as home:
        for kind, folder in kinds(Path(home)).items():
            if only not in kind:
                continue
            outcomes[kind] = Counter()
            for number in range(count):
                content = damaged(folder.content, random.Random(f"{seed} {kind} {number}"))
                try:
                    outcome = folder.damage(content)
                    assert outcome != CHANGED or "no checksums" in kind, "it reads back as something else"
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt | SystemExit):
                        raise
                    raise AssertionError(
                        f"{kind}, seed {seed}, number {number}: {error!r}, {content[:200]!r}"
                    ) from error
                outcomes[kind][outcome] += 1
    return outcomes


def main() -> int:
    """Print the outcomes per kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="corruptions of every kind of file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="only the kinds whose name has this in it")
    arguments = parser.parse_args()
    start = time.monotonic()
    outcomes = fuzz(arguments.count, arguments.seed, arguments.kind)
    names = (EQUAL, NAMED, REDONE, CHANGED)
    print(f"{'kind':44}" + "".join(f"{name:>22}" for name in names))
    for kind, found in outcomes.items():
        print(f"{kind:44}" + "".join(f"{found[name]:>22}" for name in names))
    total = sum(map(Counter.total, outcomes.values()))
    print(f"{total} corruptions in {time.monotonic() - start:.0f} s, each as the law says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
