"""`make bench`: the comparison on this CPU, as `python -m tests.bench.cpu` takes its arguments."""

import sys

from tests.bench.cpu import main

sys.exit(main())
