"""``python -m pbim`` is the ``pbim`` command."""

import sys

from pbim.cli import main

sys.exit(main())
