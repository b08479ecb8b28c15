"""The HTTP reward server: one reward, scored in worker processes, for OpenRLHF, slime and whoever speaks JSON.

`guerdon serve my.py:reward` runs it. A front process takes requests and shuffles bytes; worker processes load the reward, read the
requests, score them in micro-batches and write the answers, so that nothing a request or a reward does can stop the front.

Not a sandbox (rewards run with the user's rights), not a proxy (no TLS: put one before it), and it keeps nothing between requests.
"""

from __future__ import annotations

from guerdon.backends.serve.run import serve
from guerdon.backends.serve.settings import Settings

__all__ = ["Settings", "serve"]
