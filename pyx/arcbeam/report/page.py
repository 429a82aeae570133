"""The page: results, their comparison with references, recordings and lattices in one HTML file."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arcbeam.core.calls import lists_options
from arcbeam.core.checks import as_texts, check_bool, check_path, check_real
from arcbeam.core.errors import FormatError
from arcbeam.core.show import few, shortened
from arcbeam.core.warn import warn
from arcbeam.files.kinds import other_kind
from arcbeam.files.writing import replacing_text
from arcbeam.report.audio import address, find_recordings
from arcbeam.report.comparison import compare
from arcbeam.report.drawing import draw
from arcbeam.report.references import read_references
from arcbeam.report.results import Json, StrPath, read_results
from arcbeam.report.score import Score
from arcbeam.report.styles import Style, differences

if TYPE_CHECKING:
    from arcbeam.graph.inputs import Words


@lists_options()
def write_report(
    path: StrPath,
    hypotheses: StrPath | Iterable[Mapping[str, Any]],
    references: StrPath | Sequence[StrPath] | Mapping[str, str] | None = None,
    *,
    audio: StrPath | None = None,
    embed_audio: bool = False,
    lattices: StrPath | None = None,
    words: Words = None,
    acoustic_scale: float = 1.0,
    ignore_case: bool = False,
    allow_missing: bool = False,
) -> Score | None:
    """Writes an HTML page of the results of a decoder, which a browser opens without a network.

    Parameters
    ----------
    path
        The page; it gets its name when it is complete.
    hypotheses
        A file of JSON lines, as ``arcbeam decode --format json``, ``transduce`` and ``align`` write it; or objects
        with the same keys, such as ``{"id": name, **hypothesis.to_dict()}``.
    references
        What was said: ``{utterance: words}``, or files as ``arcbeam decode --reference`` takes them. None for a page
        without word errors.
    audio
        A folder with the recordings, named by the utterance ids, such as ``ID.flac``; those in folders below it are
        found, too. The page links to them.
    embed_audio : bool
        Store the recordings in the page, which grows by 4/3 of their size.
    lattices
        An archive of lattices to draw, as `read_lattices` takes it, such as that of ``arcbeam decode --lattice``.
    words : SymbolTable, path or list of str, optional
        The names of words in `lattices`, or the path of the graph of arcbeam that decoded; without it words are
        numbers.
    acoustic_scale : float
        That of the decoder, with which the posteriors in `lattices` are computed.
    ignore_case : bool
        Differences of upper and lower case do not count as word errors.
    allow_missing : bool
        If `references` or `hypotheses` lack utterances, compare those that are in both.

    Returns
    -------
    Score or None
        The word errors: ``wer`` as a fraction, ``substitutions``, ``insertions``, ``deletions``, ``words``,
        ``utterances``; its text is that of ``arcbeam decode --reference``. None without `references`.

    Raises
    ------
    FormatError
        A file is damaged or of another kind; an utterance occurs twice, or lacks its reference; a folder without
        recordings of these utterances, or an archive without their lattices.
    TypeError, ValueError
        An option of another type, or one that does nothing without another.
    MissingDependencyError
        jiwer, which counts word errors, is missing.
    OSError
        A file cannot be read or written.

    Warns
    -----
    UserWarning
        The references are written in another way, such as in capitals or with punctuation; `audio` or `lattices` lack
        some utterances; or `words` names other words in `lattices` than the results have.
    """
    check_path("path", path, "the name of a file")
    for name, place in (("audio", audio), ("lattices", lattices)):
        check_path(name, "" if place is None else place, "a path")
    check_real("acoustic_scale", acoustic_scale, "above 0", above=0.0)
    options = {"embed_audio": embed_audio, "ignore_case": ignore_case, "allow_missing": allow_missing}
    for name, value in options.items():
        check_bool(name, value)
    options |= {"words": words is not None, "acoustic_scale": acoustic_scale != 1.0}
    given = {"audio": audio, "lattices": lattices, "references": references}
    for name, other in NEEDS.items():
        if options[name] and given[other] is None:
            raise ValueError(f"{name}: expected {other}, too, without which it does nothing; give {other}")
    results = read_results(hypotheses)
    by_name = {result["id"]: result for result in results}
    title = Path(hypotheses).name if isinstance(hypotheses, (str, os.PathLike)) else "Report"
    data: Json = {"title": title, "utterances": results}
    score = None
    if references is not None:
        said = _references(references)
        _check_names(list(by_name), said, allow_missing)
        score, figures = compare(results, said, ignore_case=ignore_case)
        data |= figures
        written = Style()
        written.add(result["text"] for result in results if result["id"] in said)
        for remark in differences(said.values() if score.words else (), written, ignore_case=ignore_case):
            warn(remark)
    if audio is not None:
        for name, recording in find_recordings(audio, by_name).items():
            by_name[name]["audio"] = address(recording, path, embed=embed_audio)
        _tell_missing(results, "audio", f"recording in {os.fsdecode(audio)}")
    if lattices is not None:
        from arcbeam.lattices.archives import read_lattices

        pairs: list[tuple[str, str]] = []  # texts of results and of lattices, where these have names of words
        for name, lattice in read_lattices(lattices, words=_names(words)):
            if name in by_name:
                by_name[name]["lattice"] = draw(lattice, acoustic_scale, by_name[name].get("frame_shift"))
                if words is not None:
                    pairs.append((by_name[name]["text"], lattice.best_path(acoustic_scale).text or ""))
        _warn_of_other_words(pairs)
        _tell_missing(results, "lattice", f"lattice in {os.fsdecode(lattices)}")
    with replacing_text(path) as file:
        file.write(_page(data))
    return score


NEEDS = {
    "embed_audio": "audio", "words": "lattices", "acoustic_scale": "lattices", "ignore_case": "references",
    "allow_missing": "references",
}  # fmt: skip
"""Options that do nothing without another."""


def _references(given: StrPath | Sequence[StrPath] | Mapping[str, str]) -> Mapping[str, str]:
    """References by utterance id, words separated by single spaces."""
    if isinstance(given, Mapping):
        texts = as_texts("references", list(given.values()), "utterance")
        return {name: " ".join(text.split()) for name, text in zip(given, texts, strict=True)}
    paths = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else [given]
    for path in paths:
        check_path("references", path, "files, or {utterance: words}")
        if isinstance(path, str) and len(path.split()) > 1 and not Path(path).suffix and not os.path.exists(path):
            raise ValueError(
                f"references: expected files, or {{utterance: words}}, got {shortened(path)}, which is no file; "
                "transcripts need the ids of their utterances, as in dict(zip(ids, transcripts))"
            )
    return read_references(Path(os.fsdecode(path)) for path in paths)


def _check_names(names: Sequence[str], said: Mapping[str, str], allow_missing: bool) -> None:
    """FormatError for an utterance that only one side has; with `allow_missing` if they have none in common."""
    found = set(names)
    without, absent = [name for name in names if name not in said], [name for name in said if name not in found]
    if len(without) == len(names):
        raise FormatError(
            f"references: expected those of the hypotheses, such as {names[0]!r}, got {few(list(said), most=1)}"
        )
    for side, missing in (("references", without), ("hypotheses", absent)):
        if missing and not allow_missing:
            raise FormatError(
                f"{side}: expected one for each utterance, got none for {len(missing):,}, {few(missing)}; "
                "allow_missing (--allow-missing) compares the others"
            )
    if without or absent:
        warn(f"not scored: {len(without):,} without a reference, {len(absent):,} without a transcript")


def _names(words: Words) -> Words:
    """The table of words; that of a graph of arcbeam, where its path is given."""
    if isinstance(words, (str, os.PathLike)) and other_kind(words) == "a graph of arcbeam":
        from arcbeam.graph.graph import Graph

        return Graph.load(words).word_symbols
    return words


def _warn_of_other_words(pairs: Iterable[tuple[str, str]]) -> None:
    """Warns if the best paths of lattices have fewer than half of the words of the results: the names are others.

    With another acoustic scale, or for minimum Bayes risk, a best path differs in single words.
    """
    words = [(set(text.split()), set(best.split()), best) for text, best in pairs]
    if 2 * sum(len(said & best) for said, best, _ in words) < sum(len(said) for said, _, _ in words):
        said, _, text = next(entry for entry in words if 2 * len(entry[0] & entry[1]) < len(entry[0]))
        warn(
            f"lattices: their best paths have other words than the results, such as {shortened(text)} in place of "
            f"{few(sorted(said), most=3)}: are words (--words) those of the graph that decoded, and the lattices those "
            "of these results?"
        )


def _tell_missing(results: Sequence[Json], key: str, what: str) -> None:
    """A warning if some results lack what was given for others; FormatError if all do."""
    missing = [result["id"] for result in results if key not in result]
    if len(missing) == len(results):
        raise FormatError(f"expected a {what} for the utterances of the hypotheses, got none for {few(missing)}")
    if missing:
        warn(f"no {what}: {len(missing):,} of {len(results):,} utterances, such as {missing[0]!r}")


def _page(data: Json) -> str:
    """The page with its data, in which no text of a user can end the block that it is in."""
    folder = files("arcbeam.report")
    parts = {kind: folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js")}
    parts |= {f"hash of {kind}": b64encode(sha256(parts[kind].encode()).digest()).decode() for kind in ("css", "js")}
    parts["data"] = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return re.sub(r"\[\[([^\]]+)\]\]", lambda found: parts[found[1]], parts["html"])
