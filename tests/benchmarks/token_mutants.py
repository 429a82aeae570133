"""Programs as lists of lines of tokens, written down in many ways, and with one token changed."""

from collections.abc import Callable, Iterator

Program = list[list[str]]

OTHERS = {"+": "-", "++": "--", "(": "[", ")": "]", "{": "(", "}": ")", "<": ">", "#": "##", ";": ",", "=": "=="}


def plain(program: Program) -> str:
    return "".join(" ".join(line) + "\n" for line in program)


def written(program: Program, between: Callable[[list[str], int], str], after: Callable[[list[str]], str]) -> str:
    """The lines, with what ``between`` gives before each token but the first, and what ``after`` gives at each end."""
    text = ""
    for line in program:
        text += line[0] + "".join(between(line, at) + line[at] for at in range(1, len(line))) + after(line)
    return text


def altered(token: str) -> str:
    """Another token of its kind, as like it as can be."""
    if token in OTHERS:
        return OTHERS[token]
    at = next((at for at in range(len(token) // 2, len(token)) if token[at].isalnum()), None)
    if at is None:
        return token + "+"
    return token[:at] + chr(ord(token[at]) ^ 1) + token[at + 1 :]


def mutants(program: Program) -> Iterator[tuple[str, Program]]:
    """The program without a token, with one twice, with another one, and with two in each other's place."""
    for row, line in enumerate(program):
        for at, token in enumerate(line):
            changes = {
                "without": line[:at] + line[at + 1 :],
                "twice": [*line[:at], token, *line[at:]],
                "other": [*line[:at], altered(token), *line[at + 1 :]],
            }
            if at and token != line[at - 1]:
                changes["swapped"] = [*line[: at - 1], token, line[at - 1], *line[at + 1 :]]
            for what, changed in changes.items():
                yield f"{what} {token!r} in {' '.join(line)!r}", [*program[:row], changed, *program[row + 1 :]]
