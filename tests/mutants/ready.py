"""What processes that run killers are forked with."""

from tests.mutants.apart import switched

switched()
