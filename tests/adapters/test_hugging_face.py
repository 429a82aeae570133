"""Tiny models of Transformers with random weights: the words of their own greedy decoding, and their own lengths."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import arcbeam

torch = pytest.importorskip("torch", reason="torch is missing")
transformers = pytest.importorskip("transformers", reason="transformers is missing")

from arcbeam.adapters import hugging_face  # noqa: E402
from benchmarks.experiments import gpu_transformers  # noqa: E402
from benchmarks.harness.registry import Context  # noqa: E402
from data import synthetic_transducer as synthetic  # noqa: E402
from tests.package.test_guide import examples  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:log_probs. expected the blank:UserWarning")

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"abcdefgh"]
PIECES = ["\u2581a", "b", "c", "\u2581d", "e", "f", "g", "\u2581h", "i", "j", "k", "l"]
CONFORMER = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "num_mel_bins": 80,
    "subsampling_conv_channels": 8,
}  # fmt: skip
GRANITE = {
    "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
    "intermediate_size": 64, "vocab_size": 13,
}  # fmt: skip
OMNIASR = {
    "model_type": "omniasr_audio", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
WAV2VEC2 = {
    "vocab_size": len(LETTERS), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "conv_dim": (16,) * 7, "feat_extract_norm": "layer", "do_stable_layer_norm": True,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
}  # fmt: skip


class Tokenizer:
    """Stands for a tokenizer of pieces."""

    pad_token = "<pad>"

    def __init__(self, names):
        self._names = names

    def get_vocab(self):
        return {name: column for column, name in enumerate(self._names)}


def seeded(kind, config):
    torch.manual_seed(1)
    return kind(config).eval()


@pytest.fixture(scope="module")
def processor(tmp_path_factory):
    path = tmp_path_factory.mktemp("wav2vec2") / "vocab.json"
    path.write_text(json.dumps({name: column for column, name in enumerate(LETTERS)}))
    return transformers.Wav2Vec2Processor(
        transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True),
        transformers.Wav2Vec2CTCTokenizer(str(path)),
    )


@pytest.fixture(scope="module")
def inputs(processor):
    audio = [np.random.default_rng(i).normal(size=16000 + 3000 * i).astype(np.float32) for i in range(3)]
    return processor(audio, sampling_rate=16000, return_tensors="pt", padding=True)


def own_words(model, processor, logits, lengths):
    return [processor.decode(torch.argmax(rows[:length], -1)) for rows, length in zip(logits, lengths, strict=True)]


@pytest.mark.parametrize("name", ["Wav2Vec2", "Hubert", "WavLM", "UniSpeech"])
def test_the_words_of_wav2vec2_and_its_family(name, processor, inputs):
    config = getattr(transformers, f"{name}Config")(**WAV2VEC2)
    model = seeded(getattr(transformers, f"{name}ForCTC"), config)
    with torch.no_grad():
        logits = model(**inputs).logits
    decoder = arcbeam.from_transformers(model, processor)
    lengths = decoder.lengths(inputs.attention_mask, logits.shape[1])
    assert lengths.tolist() == model._get_feat_extract_output_lengths(inputs.attention_mask.sum(-1)).tolist()
    assert decoder.decoder.options.frame_shift == 0.02
    found = decoder.decode(logits, inputs.attention_mask)
    assert [str(one) for one in found] == own_words(model, processor, logits, lengths)
    half = decoder.decode(logits.to(torch.bfloat16), inputs.attention_mask)
    assert len(half) == 3 and all(one.words for one in half)
    with_grad = decoder.decode(model(**inputs).logits, inputs.attention_mask, nbest=3)
    assert [str(one) for one in with_grad] == [str(one) for one in found] and len(with_grad[0].nbest) == 3


def test_a_mask_of_the_frames_of_logits_is_refused(processor, inputs):
    model = seeded(transformers.Wav2Vec2ForCTC, transformers.Wav2Vec2Config(**WAV2VEC2))
    decoder = arcbeam.from_transformers(model, processor)
    with torch.no_grad():
        logits = model(**inputs).logits
    lengths = decoder.lengths(inputs.attention_mask, logits.shape[1])
    mask = np.arange(logits.shape[1]) < lengths[:, None]
    with pytest.raises(
        ValueError, match=r"^attention_mask: expected .* as many as the logits have frames; with a mask"
    ):
        decoder.decode(logits, mask)
    given = decoder.decode(logits, inputs.attention_mask)
    assert [str(one) for one in decoder.decoder.decode(logits, mask, logits=True)] == [str(one) for one in given]


def test_a_folder_needs_no_weights_of_a_ctc_model(processor, inputs, tmp_path):
    model = seeded(transformers.Wav2Vec2ForCTC, transformers.Wav2Vec2Config(**WAV2VEC2))
    model.config.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    with torch.no_grad():
        logits = model(**inputs).logits
    given = arcbeam.from_transformers(model, processor).decode(logits, inputs.attention_mask)
    loaded = arcbeam.from_transformers(tmp_path).decode(logits, inputs.attention_mask)
    assert [one.to_dict() for one in loaded] == [one.to_dict() for one in given]


def test_a_language_model(processor, inputs, tmp_path):
    pytest.importorskip("kaldifst")
    (tmp_path / "lm.arpa").write_text(
        "\\data\\\nngram 1=5\n\n\\1-grams:\n-1 <s>\n-1 </s>\n-1 cab\n-1 bad\n-1 fed\n\n\\end\\\n"
    )
    model = seeded(transformers.Wav2Vec2ForCTC, transformers.Wav2Vec2Config(**WAV2VEC2))
    decoder = arcbeam.from_transformers(model, processor, lm=tmp_path / "lm.arpa", cache=False)
    with torch.no_grad():
        found = decoder.decode(model(**inputs).logits, inputs.attention_mask, nbest=5, confidence=True)
    assert {word.word for one in found for word in one.words} <= {"cab", "bad", "fed"}
    assert all(0 <= word.confidence <= 1 for one in found for word in one.words)


CTC = {  # classes, options, the place of the blank, seconds a frame, and the shape of the input [batch, ...]
    "parakeet_ctc": ("Parakeet", {"encoder_config": CONFORMER}, -1, 0.08, (400, 80)),
    "lasr_ctc": ("Lasr", {"encoder_config": CONFORMER}, 0, 0.04, (400, 80)),
    "granite_speech5_ctc": ("GraniteSpeech5", {"encoder_config": GRANITE}, 0, 0.08, (400, 320)),
    "omniasr_ctc": ("OmniASR", {"audio_config": OMNIASR}, 0, 0.02, (1, 16000)),
}


@pytest.mark.parametrize("kind", CTC)
def test_models_of_pieces(kind):
    name, options, blank, shift, shape = CTC[kind]
    blank %= len(PIECES) + 1
    names = [*PIECES[:blank], "<pad>", *PIECES[blank:]]
    blank_name = "blank_token_id" if kind == "omniasr_ctc" else "pad_token_id"
    config = getattr(transformers, f"{name}CTCConfig")(vocab_size=len(names), **{blank_name: blank}, **options)
    model = seeded(getattr(transformers, f"{name}ForCTC"), config)
    features, size = torch.randn(3, *shape), max(shape)
    mask = torch.ones(3, size, dtype=torch.long)
    mask[1, 5 * size // 8 :], mask[2, size // 4 - 3 :] = 0, 0
    takes_mask = "padding_mask" if kind == "omniasr_ctc" else "attention_mask"
    with torch.no_grad():
        logits = model(features, **{takes_mask: mask}).logits
    decoder = arcbeam.from_transformers(model, Tokenizer(names))
    own = model._get_output_attention_mask(mask, logits.shape[1]).sum(-1).tolist()
    assert decoder.lengths(mask, logits.shape[1]).tolist() == own and len(set(own)) == 3
    assert decoder.decoder.options.frame_shift == pytest.approx(shift)
    for one, rows, length in zip(decoder.decode(logits, mask), logits, own, strict=True):
        best = torch.unique_consecutive(torch.argmax(rows[:length], -1)).tolist()
        said = "".join(names[column] for column in best if column != blank)
        assert str(one) == said.replace("\u2581", " ").strip()


TRANSDUCERS = {  # classes, and what is decoded of their encoders' outputs
    "tdt": ("ParakeetForTDT", "ParakeetTDTConfig", "last_hidden_state"),
    "rnnt": ("ParakeetForRNNT", "ParakeetRNNTConfig", "last_hidden_state"),
    "nemotron": ("NemotronAsrStreamingForRNNT", "NemotronAsrStreamingConfig", "last_hidden_state"),
    "nemotron with prompts": ("Nemotron3_5AsrForRNNT", "Nemotron3_5AsrConfig", "pooler_output"),
}


def transducer(kind):
    """A model that writes several tokens."""
    model_class, config_class, _ = TRANSDUCERS[kind]
    blank = len(PIECES)
    config = getattr(transformers, config_class)(
        vocab_size=blank + 1, decoder_hidden_size=24, blank_token_id=blank, pad_token_id=blank,
        encoder_config=CONFORMER,
    )  # fmt: skip
    model = seeded(getattr(transformers, model_class), config)
    model.generation_config.decoder_start_token_id, model.generation_config.max_new_tokens = blank, 3000
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(5.0)  # else it writes nothing but one token
    return model


@pytest.mark.parametrize("kind", TRANSDUCERS)
def test_the_tokens_of_generate(kind):
    model, blank = transducer(kind), len(PIECES)
    decoder = arcbeam.from_transformers(model, Tokenizer(PIECES), device="cpu")
    assert decoder.options.frame_shift == pytest.approx(0.08)
    features = [torch.randn(1, length, 80) for length in (160, 97, 48)]
    with torch.no_grad():
        encoded = [getattr(model.get_audio_features(one, None), TRANSDUCERS[kind][2])[0] for one in features]
    found = decoder.decode(encoded)
    padded = torch.nn.utils.rnn.pad_sequence(encoded, batch_first=True)
    mask = torch.arange(padded.shape[1]) < torch.tensor([[len(one)] for one in encoded])
    assert [one.tokens.tolist() for one in decoder.decode(padded, mask)] == [one.tokens.tolist() for one in found]
    written = set()
    for i, one in enumerate(found):  # alone, because a batch's generate() goes on over the padding of short ones
        with torch.no_grad():
            alone = model.generate(input_features=features[i], return_dict_in_generate=True)
        own = [token for token in alone.sequences[0].tolist() if token != blank]
        assert one.tokens.tolist() == own
        assert one.text == "".join(PIECES[token] for token in own).replace("\u2581", " ").strip()
        assert " ".join(word.word for word in one.words) == one.text
        written |= set(own)
    assert len(written) > 1


@pytest.mark.parametrize("model", ["RNN-T", "TDT"])
def test_what_the_benchmark_compares(model, monkeypatch):
    """On the CPU, with a small network: the decoder writes the tokens that were put in, and generate() the same."""
    sizes = synthetic.Sizes(tokens=17, units=120, joint=120, features=96)
    monkeypatch.setattr(synthetic, "Sizes", lambda: sizes)
    monkeypatch.setattr(gpu_transformers, "FRAMES", 12)
    monkeypatch.setattr(gpu_transformers, "BATCHES", (1, 3))
    rows = list(gpu_transformers.every_batch(Context(1), model, "cpu"))
    assert [(row["batch"], row["equal"]) for row in rows] == [(1, 100.0), (3, 100.0)]
    assert all(row["ratio"] > 0 for row in rows)


def test_what_does_not_fit(processor):
    model = seeded(transformers.Wav2Vec2ForCTC, transformers.Wav2Vec2Config(**WAV2VEC2))
    with pytest.raises(ValueError, match="processor: expected the processor or the tokenizer of the model"):
        arcbeam.from_transformers(model)
    more = Tokenizer([*LETTERS, "x", "y"])
    with pytest.raises(ValueError, match=r"expected at most 13 tokens, .* got 15: it is that of another model"):
        arcbeam.from_transformers(model, more)
    with pytest.raises(arcbeam.UnsupportedError, match=r"expected a CTC model .* got one of the type 'whisper'"):
        arcbeam.from_transformers(SimpleNamespace(config=SimpleNamespace(model_type="whisper")))
    with pytest.raises(arcbeam.UnsupportedError, match=r"got dict; for any other CTC model use arcbeam\.ctc_decoder"):
        arcbeam.from_transformers({})
    with pytest.raises(ValueError, match=r"transducer: expected None for a CTC model, got \{\}"):
        arcbeam.from_transformers(model, processor, transducer={})
    with pytest.raises(ValueError, match=r"processor: expected 13 tokens, or one less without the blank, .* got 3"):
        arcbeam.from_transformers(transducer("tdt"), Tokenizer(["a", "b", "c"]))
    parakeet = SimpleNamespace(model_type="parakeet_tdt")
    with pytest.raises(ValueError, match=r"beam, lm: for CTC models; options of transducers are transducer=\{\.\.\.\}"):
        arcbeam.from_transformers(SimpleNamespace(config=parakeet), None, "lm.arpa", beam=3.0)
    decoder = arcbeam.from_transformers(model, processor)
    with pytest.raises(ValueError, match=r"expected \[batch, samples\], got shape \[3\]; if these are the frames"):
        decoder.lengths(torch.ones(3), 4)


def test_columns_that_the_tokenizer_lacks():
    config = transformers.Wav2Vec2Config(**(WAV2VEC2 | {"vocab_size": len(LETTERS) + 3}))
    model = seeded(transformers.Wav2Vec2ForCTC, config)
    decoder = arcbeam.from_transformers(model, Tokenizer(LETTERS), word_delimiter="|")
    assert decoder.decoder.graph.num_columns == len(LETTERS) + 3
    assert decoder.decoder.graph.blank == 0 and decoder.decoder.graph.separator == "|"


@pytest.mark.parametrize("kind", hugging_face.CTC)
def test_every_type_has_its_seconds_a_frame(kind):
    config = transformers.AutoConfig.for_model(kind)
    expected = {"parakeet_ctc": 0.08, "granite_speech5_ctc": 0.08, "lasr_ctc": 0.04}.get(kind, 0.02)
    assert hugging_face.CTC[kind](config, 160) / 16000 == pytest.approx(expected)
    assert kind in transformers.models.auto.modeling_auto.MODEL_FOR_CTC_MAPPING_NAMES


def test_no_type_of_ctc_models_is_left_out():
    assert {*transformers.models.auto.modeling_auto.MODEL_FOR_CTC_MAPPING_NAMES} == {*hugging_face.CTC}


class Features:
    """Stands for the processor of a model of features."""

    feature_extractor, tokenizer = None, Tokenizer(PIECES)

    def __call__(self, audio, **options):
        lengths = [len(samples) // 160 for samples in audio]
        mask = torch.tensor([[int(i < length) for i in range(max(lengths))] for length in lengths])
        torch.manual_seed(3)
        return {"input_features": torch.randn(len(audio), max(lengths), 80), "attention_mask": mask}


def test_the_page(processor, monkeypatch, tmp_path, capsys):
    pytest.importorskip("kaldifst")
    soundfile = pytest.importorskip("soundfile")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARCBEAM_CACHE", str(tmp_path))
    words = "".join(f"-1 {word}\n" for word in ("cab", "bad", "fed", "g"))
    head = "\\data\\\nngram 1=6\n\n\\1-grams:\n-1 <s>\n-1 </s>\n"
    (tmp_path / "3gram.arpa").write_text(f"{head}{words}\n\\end\\\n")
    ctc, transducers = examples("guide/from-transformers.md")
    (tmp_path / "data" / "demo").mkdir(parents=True)
    for i, name in enumerate(("goforward", "numbers")):
        noise = np.random.default_rng(i).uniform(-0.9, 0.9, 16000 + 3000 * i)
        soundfile.write(f"data/demo/{name}.flac", noise, 16000)
    model = seeded(transformers.Wav2Vec2ForCTC, transformers.Wav2Vec2Config(**WAV2VEC2))
    monkeypatch.setattr(transformers.AutoModelForCTC, "from_pretrained", lambda name: model)
    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", lambda name: processor)
    exec(compile(ctc, "from-transformers.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4 and {*" ".join(printed[::2]).split()} <= {"cab", "bad", "fed", "g"}

    monkeypatch.setattr(transformers.AutoModelForTDT, "from_pretrained", lambda name: transducer("tdt"))
    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", lambda name: Features())
    exec(compile(transducers, "from-transformers.md", "exec"), names := {})
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert names["hypothesis"].words and all(0 <= word.confidence <= 1 for word in names["hypothesis"].words)
