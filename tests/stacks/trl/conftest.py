"""Makes the tiny policy importable; no test here reaches for the network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.update(
    HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1"
)
sys.path.insert(0, str(Path(__file__).parent))
collect_ignore = ["tiny_trl.py", "split_groups.py"]
