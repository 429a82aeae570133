"""Flowcharts of mermaid as SVG, drawn when the site is built, so that a page needs neither a script nor a network.

It reads what our pages use: ``flowchart TD``, boxes ``id["text"]``, questions ``id{"text"}``, arrows ``a --> b`` and
``a -->|text| b``, chains of them, and ``<br>`` in texts. Anything else is an error.

Every node has a row below all that point to it. An arrow over several rows gets a point in each row between. Within a
row, the order and then the places follow the mean of the neighbours, from above and from below in turn.
"""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass, field

WRAP, LETTER, LINE, PADDING, GAP, ROW = 24, 7.4, 19, 12, 22, 58  # letters; pixels
SHRINKS = 0.85  # as far as letters can still be read; a narrower page scrolls
SWEEPS = 12
_NODE = re.compile(r'\s*(\w+)(?:\["([^"]+)"\]|\{"([^"]+)"\})?\s*')
_ARROW = re.compile(r"-->(?:\|([^|]+)\|)?")


@dataclass
class Node:
    """A box, a question, or (without text) a point of an arrow that passes a row."""

    lines: list[str] = field(default_factory=list)
    question: bool = False
    above: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    row: int = 0
    x: float = 0.0

    @property
    def width(self) -> float:
        """In pixels."""
        return max((len(line) for line in self.lines), default=0) * LETTER + 2 * PADDING * bool(self.lines)

    @property
    def height(self) -> float:
        """In pixels."""
        return (len(self.lines) * LINE + PADDING) * bool(self.lines)


def parse(source: str) -> tuple[dict[str, Node], list[tuple[str, str, str]]]:
    """The nodes by name, and the arrows: (from, to, text)."""
    nodes: dict[str, Node] = {}
    arrows = []
    first, *lines = [line for line in source.splitlines() if line.strip()]
    if first.split() != ["flowchart", "TD"]:
        raise ValueError(f"a diagram: expected flowchart TD, got {first!r}")
    for line in lines:
        place, last, text = 0, None, ""
        while place < len(line):
            found = _NODE.match(line, place)
            if found is None:
                raise ValueError(f'a diagram: expected id["text"], id{{"text"}} or an arrow -->, got {line[place:]!r}')
            name, box, question = found.groups()
            node = nodes.setdefault(name, Node())
            if box or question:
                paragraphs = re.split(r"<br/?>", box or question)
                node.lines = [part for paragraph in paragraphs for part in _wrapped(paragraph)]
                node.question = question is not None
            if last is not None:
                arrows.append((last, name, text))
            place, last = found.end(), name
            if arrow := _ARROW.match(line, place):
                place, text = arrow.end(), arrow[1] or ""
    if nameless := [name for name, node in nodes.items() if not node.lines]:
        raise ValueError(f"a diagram: expected a text for {', '.join(nameless)}")
    return nodes, arrows


def _wrapped(text: str) -> list[str]:
    """The lines of a text; a name stays whole."""
    return textwrap.wrap(text, WRAP, break_long_words=False, break_on_hyphens=False)


def placed(nodes: dict[str, Node], arrows: list[tuple[str, str, str]]) -> list[list[str]]:
    """Gives every arrow its points (a list of names each), and every node its row and its place in the row."""
    for _ in nodes:
        for begin, end, _text in arrows:
            nodes[end].row = max(nodes[end].row, nodes[begin].row + 1)
    if max(node.row for node in nodes.values()) >= len(nodes):
        raise ValueError("a diagram: expected arrows without a circle")
    ways = []
    for number, (begin, end, _text) in enumerate(arrows):
        between = range(nodes[begin].row + 1, nodes[end].row)
        nodes |= {f"{number} {row}": Node(row=row) for row in between}
        ways.append([begin, *(f"{number} {row}" for row in between), end])
        for upper, lower in zip(ways[-1], ways[-1][1:], strict=False):
            nodes[upper].below.append(lower)
            nodes[lower].above.append(upper)
    rows: list[list[Node]] = [[] for _ in range(1 + max(node.row for node in nodes.values()))]
    for node in nodes.values():
        rows[node.row].append(node)
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            sides = [(node.above, node.below)[sweep % 2] or [*node.above, *node.below] for node in row]
            wanted = [sum(nodes[name].x for name in side) / len(side) if side else 0.0 for side in sides]
            if sweep < SWEEPS - 4:
                order = sorted(range(len(row)), key=wanted.__getitem__)
                row[:], wanted = [row[i] for i in order], [wanted[i] for i in order]
            _spread(row, wanted)
    return ways


def _spread(row: list[Node], wanted: list[float]) -> None:
    """Places nodes, in their order, near where they are wanted; those that would overlap share their mean."""
    groups: list[tuple[list[Node], list[float], list[float]]] = []  # nodes, offsets from the first, wanted - offset
    for node, x in zip(row, wanted, strict=True):
        groups.append(([node], [0.0], [x]))
        while len(groups) > 1:
            (left, offsets, starts), (right, others, more) = groups[-2:]
            room = offsets[-1] + (left[-1].width + right[0].width) / 2 + GAP
            if sum(starts) / len(starts) + room <= sum(more) / len(more):
                break
            joined = [*offsets, *(room + other for other in others)]
            groups[-2:] = [([*left, *right], joined, [*starts, *(start - room for start in more)])]
    for nodes, offsets, starts in groups:
        for node, offset in zip(nodes, offsets, strict=True):
            node.x = sum(starts) / len(starts) + offset


def svg(source: str) -> str:
    """The diagram as a picture in a box that scrolls where a page is narrow."""
    nodes, arrows = parse(source)
    ways = placed(nodes, arrows)
    left = min(node.x - node.width / 2 for node in nodes.values()) - GAP
    width = max(node.x + node.width / 2 for node in nodes.values()) + GAP - left
    tops, top = [], float(GAP)
    for row in range(1 + max(node.row for node in nodes.values())):
        tops.append(top)
        top += max(node.height for node in nodes.values() if node.row == row) + ROW
    drawn = []
    for way, (begin, _end, text) in zip(ways, arrows, strict=True):
        x, y = nodes[begin].x - left, tops[nodes[begin].row] + nodes[begin].height
        path = f"M{x:.0f} {y:.0f}"
        for number, node in enumerate(nodes[name] for name in way[1:]):
            to, end = node.x - left, tops[node.row]
            half = (y + end) / 2
            path += f" C{x:.0f} {half:.0f} {to:.0f} {half:.0f} {to:.0f} {end:.0f}"
            if text and number == 0:
                drawn += _label(text, (x + to) / 2, half)
            x, y = to, end
            if not node.lines:  # through the row, straight
                y = tops[node.row + 1] - ROW
                path += f" L{x:.0f} {y:.0f}"
        drawn.insert(0, f'<path d="{path}" marker-end="url(#arrow)"/>')
    for node in (node for node in nodes.values() if node.lines):
        x, y = node.x - left, tops[node.row]
        shape = 'class="question" rx="16"' if node.question else 'rx="3"'
        drawn.append(_rect(shape, x, y, node.width, node.height))
        drawn += (_text(line, x, y + PADDING / 2 + LINE * (at + 0.75)) for at, line in enumerate(node.lines))
    arrow = '<marker id="arrow" orient="auto" markerWidth="9" markerHeight="9" refX="8" refY="4">'
    arrow += '<path d="M0 0L8 4L0 8z"/></marker>'
    height = top - ROW + GAP
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" style="min-width: {SHRINKS * width:.0f}px"'
    return f'<div class="flowchart"><svg role="img" {size}><defs>{arrow}</defs>{"".join(drawn)}</svg></div>'


def _text(line: str, x: float, y: float) -> str:
    """A line of text around a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}">{html.escape(line)}</text>'


def _rect(attributes: str, x: float, y: float, width: float, height: float) -> str:
    """A box below a place."""
    place = f'x="{x - width / 2:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return f"<rect {attributes} {place}/>"


def _label(text: str, x: float, y: float) -> list[str]:
    """The text of an arrow, which hides the arrow where it stands."""
    return [_rect('class="label"', x, y - LINE / 2, len(text) * LETTER + 4, LINE), _text(text, x, y + 5)]
