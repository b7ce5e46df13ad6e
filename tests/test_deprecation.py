"""A deprecated name warns once, at the user's line, and names its replacement and its last version."""

import subprocess
import sys

CODE = """
from pbim._deprecation import deprecated

def old():
    deprecated("pbim.old", "pbim.new", removed_in="2.0")

old()
old()
deprecated("pbim.older", "pbim.new", removed_in="2.0")
"""


def test_it_warns_once_per_name_and_points_at_the_user(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CODE)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert lines == [
        f"{script}:5: DeprecationWarning: pbim.old will be removed in pbim 2.0: use pbim.new",
        f"{script}:9: DeprecationWarning: pbim.older will be removed in pbim 2.0: use pbim.new",
    ]


def test_as_an_error_it_stops_the_first_use(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CODE)
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "use pbim.new" in done.stderr
