"""Makes the runner and its mappings importable from the tests, as they are for the script itself."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
