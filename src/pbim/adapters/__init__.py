"""One framework per file: put a bonus and its conversion around an environment, in one line.

``wrap`` is the one for Gymnasium. A framework is imported when it is first named, so that none needs another.
"""

from pbim._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
