"""Build the wheel and the sdist, check them, and try the wheel in empty environments: make release.

Uploads nothing. Leaves the two files in dist/. The first Python also gets Stable-Baselines3 and runs all of README's
code. The others run what needs no PyTorch, which with its GPU libraries takes gigabytes in each; --torch: all run all.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
_CORE = {"numpy", "pbim"}
EXTRAS = {"none": _CORE, "gymnasium": {*_CORE, "gymnasium"}, "sb3": {*_CORE, "gymnasium", "stable_baselines3"}}
"""What is installed with the wheel, and what an example may import then."""
MOST_BYTES = 1_000_000


def run(*command: object, **options: object) -> None:
    """Run a command, show it, and stop where it fails."""
    print("$", *(each.name if isinstance(each, Path) else str(each).partition("\n")[0] for each in command), flush=True)
    subprocess.run([str(each) for each in command], check=True, **options)  # type: ignore[call-overload]


def problems(wheel: Path, sdist: Path) -> list[str]:
    """Return what must not be in the two files, and whether one is too large."""
    found = [
        f"{file.name} has {file.stat().st_size:,} bytes" for file in (wheel, sdist) if file.stat().st_size > MOST_BYTES
    ]
    names = zipfile.ZipFile(wheel).namelist()
    found += [f"{wheel.name} holds {name}" for name in names if not name.startswith(("pbim/", "pbim-"))]
    with tarfile.open(sdist) as archive:
        names = [name.split("/", 1)[-1] for name in archive.getnames()]
    return found + [f"{sdist.name} holds {name}" for name in names if name.startswith(("docs/results", "docs/_build"))]


def interpreter(version: str) -> list[str] | None:
    """Return the command of that Python, one of pyenv's included, or None if there is none."""
    name = f"python{version}"
    found = shutil.which(name)
    if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
        return [found]
    if shutil.which("pyenv"):
        versions = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True).stdout.split()
        fitting = sorted(
            (each for each in versions if each.startswith(f"{version}.")), key=lambda v: int(v.split(".")[2])
        )
        if fitting:
            return ["env", f"PYENV_VERSION={fitting[-1]}", name]
    return None


def examples(extra: str, *pages: str) -> tuple[list[str], int]:
    """Return the pages' Python examples that run with an extra, and how many do not."""
    found = [code for page in pages for code in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)]
    fitting = [code for code in found if set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) <= EXTRAS[extra]]
    return fitting, len(found) - len(fitting)


def try_wheel(wheel: Path, version: str, extra: str) -> bool:
    """Run examples with the wheel in an empty environment of that Python; False if there is no such Python."""
    command = interpreter(version)
    if command is None:
        print(f"Python {version}: not here, not tried")
        return False
    codes, others = examples(extra, "README.md", "docs/start.md")
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # those of PyTorch wait for each other where cores are busy
    with tempfile.TemporaryDirectory() as folder:
        run(*command, "-m", "venv", folder)
        python = Path(folder) / "bin" / "python"
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
        run(python, *pip, f"{wheel}[{extra}]")
        for code in codes:
            run(python, "-W", "error", "-c", code, cwd=folder, stdout=subprocess.DEVNULL, env=one_thread)
        run(python.with_name("pbim"), "list", cwd=folder, stdout=subprocess.DEVNULL)
    print(f"Python {version}: pbim[{extra}] installed, {len(codes)} examples ran, {others} need more")
    return True


def main() -> int:
    """Do all of it; return 1 where something is wrong."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT, stdout=subprocess.DEVNULL)
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, env={**os.environ, "NO_COLOR": "1"})
    wrong = problems(wheel, sdist)
    if wrong:
        print(*wrong, sep="\n", file=sys.stderr)
        return 1
    everywhere = "--torch" in sys.argv
    tried = [
        version
        for version in PYTHONS
        if try_wheel(wheel, version, "sb3" if everywhere or version == PYTHONS[0] else "gymnasium")
    ]
    print(*(f"{file.name} {file.stat().st_size:,} bytes" for file in (wheel, sdist)), sep="\n")
    print("tried on", *tried)
    print("Nothing was uploaded: publish a release on the code host, and its workflow uploads these.")
    return 0 if tried else 1


if __name__ == "__main__":
    raise SystemExit(main())
