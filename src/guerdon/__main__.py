"""`python -m guerdon`: the command line."""

from __future__ import annotations

from guerdon.cli import main

if __name__ == "__main__":  # not in the workers that import it again
    main()
