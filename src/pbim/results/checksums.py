"""Checksums of the files in a folder, in one file that ``sha256sum --check SHA256SUMS`` reads, too.

Parquet and JSON do not notice most damage: a flipped bit reads back as another number. A folder of an older pbim has no
checksums, and is taken as it is.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from pbim._files import replacing
from pbim.results.records import Corrupt, content_of

CHECKSUMS = "SHA256SUMS"
"""The file that holds one checksum per file of a folder, as sha256sum writes them."""


def write_checksums(folder: Path, names: tuple[str, ...], contents: Mapping[str, bytes] | None = None) -> None:
    """Write the checksums of files in a folder, and of ``contents`` that are about to be written, by name."""
    found = {name: content_of(folder / name) for name in names} | dict(contents or {})
    lines = [f"{hashlib.sha256(found[name]).hexdigest()}  {name}\n" for name in sorted(found)]
    with replacing(folder / CHECKSUMS) as file:
        file.write("".join(lines).encode())


def checked_content(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        Corrupt: If they cannot be read, or the checksums beside it are not of them.

    """
    content = content_of(path)
    if (path.parent / CHECKSUMS).exists():
        line = f"{hashlib.sha256(content).hexdigest()}  {path.name}".encode()
        if line not in content_of(path.parent / CHECKSUMS).split(b"\n"):
            raise Corrupt(path, f"its checksum is not the one in {CHECKSUMS}")
    return content
