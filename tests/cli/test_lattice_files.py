"""Where decode writes lattices: by name, and by Kaldi's specifiers."""

import pytest

import arcbeam


def test_by_kaldis_specifiers(run, files, tmp_path):
    """The files that a specifier names, and never one that is called like the specifier."""
    decode = "decode", "graph.arc", "in.npz", "-o", str(tmp_path / "words")
    for given in ("ark:{}/a.ark", "ark,t:{}/t.ark", "ark,t:{}/t.txt", "ark,scp:{0}/b.ark,{0}/b.scp"):
        assert run(*decode, "--lattice", given.format(tmp_path)).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} >= {"a.ark", "t.ark", "b.ark", "b.scp", "words"}
    assert (tmp_path / "a.ark").read_bytes() == (tmp_path / "b.ark").read_bytes() != (tmp_path / "t.ark").read_bytes()
    by_name, by_index, as_text, by_specifier = (
        {name: lattice.to_openfst().num_states for name, lattice in arcbeam.read_lattices(given)}
        for given in (*(f"{tmp_path}/{name}" for name in ("a.ark", "b.scp", "t.ark")), f"ark:{tmp_path}/a.ark")
    )
    assert by_name == by_index == as_text == by_specifier != {}
    (tmp_path / "reference.tsv").write_text("one\tah bee\n")
    piped = run(*decode, "--lattice", "ark:-", "-r", str(tmp_path / "reference.tsv"), "--allow-missing")
    assert piped.exit_code == 0 and piped.stdout_bytes == (tmp_path / "a.ark").read_bytes()
    assert "WER" in piped.stderr


def test_raw_lattices(run, files, tmp_path):
    """All paths, with arcs that lack words; without the option none does."""
    decode = "decode", "graph.arc", "in.npz", "-o", str(tmp_path / "words"), "--lattice"
    assert run(*decode, str(tmp_path / "a.ark")).exit_code == 0
    assert run(*decode, str(tmp_path / "raw.ark"), "--raw-lattice").exit_code == 0
    found, raw = (dict(arcbeam.read_lattices(tmp_path / name)) for name in ("a.ark", "raw.ark"))
    assert found.keys() == raw.keys()
    assert all((lattice.arcs["word"] != 0).all() for lattice in found.values())
    assert any((lattice.arcs["word"] == 0).any() for lattice in raw.values())
    for name, lattice in found.items():
        assert lattice.best_path().words.tolist() == raw[name].best_path().words.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lattice", "x.scp"], "ark,scp:x.ark,x.scp writes both"),
        (["--lattice", "scp:x"], "expected ark:FILE"),
        (["--lattice", "x.fst"], "expected the name of a Kaldi archive, got x.fst; type --lattice x.ark"),
        (["--lattice", "x.txt"], "got x.txt; type --lattice x.ark, or ark,t:x.txt for text"),
        (["--lattice", "ark,p:x"], "expected options among"),
        (["--lattice", "ark:-"], "name a file for the words with --output"),
        (["--raw-lattice"], "--lattice"),
    ],
)
def test_what_is_refused(run, files, options, message):
    result = run("decode", "graph.arc", "in.npz", *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("\u2502", " ").split())
