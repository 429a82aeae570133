"""The state of a stream of speech between two chunks, as a host under the emulator keeps it."""

import numpy as np

from tests.decode.search_layout import NONE, padded


class HostStream:
    """The state of a stream, which begins with room for so much.

    rules : an EndpointRules, if sentences end
    large_start : of a large language model, the state before the sentence
    """

    def __init__(self, tokens=1, entries=1, rules=None, large_start=0):
        self.large_start = large_start
        self.tokens, self.entries = tokens, entries  # of the state that is made next
        self.state, self.sizes = None, (0, 0)
        self.settled: list[int] = []
        self.rules = rules
        self.frames = self.fired = 0
        self.num_links = 1  # there is room for next, where lattices are asked for
        self.links, self.link_sizes = None, (0, 0)
        self.shows = False  # whether the next chunk gives the lattice so far
        self.lattice = None  # of the sentence, once it has ended

    def view(self, number, row, bytes_of, keep, last, graph):
        """Tells the kernel where the states are, and when to look for an endpoint."""
        self.after = np.zeros(48 + padded(8 * self.entries) + bytes_of(self.tokens), np.uint8)
        keep[f"after[{number}]"] = self.after
        row["after"], row["after_tokens"], row["after_entries"] = self.after.ctypes.data, self.tokens, self.entries
        row["is_last"], row["fired"], row["frames"], row["next_look"] = last, self.fired, self.frames, NONE
        row["large_start"], row["shows_lattice"], self.is_last = self.large_start, self.shows, last
        if self.rules is not None:
            keep["columns of the graph"] = graph.columns
            row["columns"], row["rules"] = graph.columns.ctypes.data, self._packed_rules()
            if not self.fired:
                row["next_look"] = self.rules.every - self.frames % self.rules.every
        if self.state is not None:
            keep[f"before[{number}]"] = self.state
            row["before"], (row["before_tokens"], row["before_entries"]) = self.state.ctypes.data, self.sizes

    def view_links(self, number, row, keep, steps):
        """Tells the kernel where the links are, after `view`."""
        self.steps = steps
        self.after_links = np.zeros(16 + 16 * self.num_links + 16 * steps + 4 * self.entries, np.uint8)
        keep[f"after_links[{number}]"] = self.after_links
        row["after"], row["after_links"], row["after_steps"] = self.after_links.ctypes.data, self.num_links, steps
        if self.links is not None:
            keep[f"before_links[{number}]"] = self.links
            row["before"], (row["before_links"], row["before_steps"]) = self.links.ctypes.data, self.link_sizes

    def _packed_rules(self):
        packed = np.zeros(36, np.uint32)
        for i, rule in enumerate(self.rules.rules):
            packed[4 * i : 4 * i + 3] = rule[:3]
            packed[4 * i + 3] = np.float32(rule.max_relative_cost).view(np.uint32)
        packed[32:34] = len(self.rules.rules), self.rules.every
        packed[34:] = np.array([self.rules.blank_column, self.rules.separator_column], np.int32).view(np.uint32)
        return packed

    def take(self, found, result):
        """The chunk was decoded, as far as the sentence goes."""
        settled = int(result["settled"])
        if self.lattice is not None:
            return  # the sentence has ended before
        self.settled += found.arcs[:settled].tolist()
        found.arcs = found.arcs[settled:]
        self.frames += int(result["taken"])
        self.fired = int(result["fired"])
        self.state, self.sizes = self.after, (self.tokens, self.entries)
        if found.lattice is not None and (self.is_last or self.fired):  # a state that is not there
            self.lattice, self.state, self.links = found.lattice, None, None
        elif hasattr(self, "after_links"):
            self.links, self.link_sizes = self.after_links, (self.num_links, self.steps)
