"""Files are written whole or not at all, and like any other file."""

import pytest

from pbim._files import replacing


def test_a_written_file_can_be_read_by_whoever_could_read_any_other(tmp_path):
    plain, written = tmp_path / "plain", tmp_path / "new" / "written"
    plain.write_text("")
    with replacing(written) as file:
        file.write(b"all of it")
    assert written.read_bytes() == b"all of it"
    assert written.stat().st_mode == plain.stat().st_mode


def test_an_interrupted_write_changes_nothing_and_leaves_nothing(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")

    def write():
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
