"""Tiny models of NeMo with random weights: a character CTC, a CTC of pieces, an RNN-T and a hybrid of TDT and CTC."""

import numpy as np

from tests.front.models import sentencepiece_model

MODULES = "nemo.collections.asr.modules."
LABELS = [" ", *"abcdefgh"]
FEATURES = {
    "_target_": f"{MODULES}AudioToMelSpectrogramPreprocessor", "sample_rate": 16000, "window_size": 0.025,
    "window_stride": 0.01, "features": 80, "normalize": "per_feature", "dither": 0.0, "pad_to": 0,
}  # fmt: skip
CONFORMER = {
    "_target_": f"{MODULES}ConformerEncoder", "feat_in": 80, "n_layers": 1, "d_model": 16, "n_heads": 2,
    "subsampling": "dw_striding", "subsampling_factor": 8, "subsampling_conv_channels": 8, "conv_kernel_size": 9,
}  # fmt: skip
LAYER = {"filters": 16, "kernel": [11], "dilation": [1], "dropout": 0.0, "residual": False, "separable": True}
QUARTZNET = {
    "_target_": f"{MODULES}ConvASREncoder", "activation": "relu", "feat_in": 80, "conv_mask": True,
    "jasper": [LAYER | {"repeat": 1, "stride": [2]}, LAYER | {"repeat": 2, "stride": [1]}],
}  # fmt: skip
CTC_DECODER = {"_target_": f"{MODULES}ConvASRDecoder", "feat_in": 16, "num_classes": -1, "vocabulary": []}
DURATIONS = [0, 1, 2, 3, 4]
TDT = {
    "decoding": {
        "strategy": "greedy_batch",
        "model_type": "tdt",
        "durations": DURATIONS,
        "greedy": {"max_symbols": 10},
    },
    "loss": {"loss_name": "tdt", "tdt_kwargs": {"durations": DURATIONS, "sigma": 0.02, "omega": 0.1}},
}  # fmt: skip
RNNT = {
    "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 10}},
    "loss": {"loss_name": "default"},
}


def made(name, config):
    """A model of the class with random weights, which write other labels where the audio changes."""
    import torch
    from nemo.collections.asr import models
    from omegaconf import OmegaConf

    torch.manual_seed(4)
    model = getattr(models, name)(cfg=OmegaConf.create(config)).eval()
    sounds = audio()
    signal = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(one) for one in sounds], batch_first=True)
    lengths = torch.tensor([len(one) for one in sounds])
    with torch.no_grad():
        features, lengths = model.preprocessor(input_signal=signal, length=lengths)
        encoded, lengths = model.encoder(audio_signal=features, length=lengths)
        frames = torch.cat([one[:, :length].T for one, length in zip(encoded, lengths, strict=True)])
        mean, spread = frames.mean(0), frames.std(0) + 1e-3
        for head in (model.decoder, getattr(model, "ctc_decoder", None)):
            if hasattr(head, "decoder_layers"):
                spread_over(head.decoder_layers[0], mean, spread, 3.0)
        if hasattr(model, "joint"):
            spread_over(model.joint.enc, mean, spread, 2.0)
            model.joint.joint_net[-1].weight.mul_(6.0)
    return model


def spread_over(layer, mean, spread, factor):
    """Scales a linear layer so that its outputs vary by about this factor around 0."""
    weight = layer.weight.reshape(len(layer.weight), -1)
    weight.mul_(factor / spread)
    layer.bias.copy_(-(weight @ mean))


def characters():
    decoder = CTC_DECODER | {"num_classes": len(LABELS), "vocabulary": LABELS}
    config = {"labels": LABELS, "preprocessor": FEATURES, "encoder": QUARTZNET, "decoder": decoder}
    return made("EncDecCTCModel", {"sample_rate": 16000, **config})


def with_pieces(folder):
    """What the configurations of models of pieces share; the tokenizer is written to the folder."""
    content = sentencepiece_model(folder, unk_id=0, bos_id=-1, eos_id=-1)
    (folder / "tokenizer.model").write_bytes(content)
    names = [line.split("\t")[0] for line in (folder / "trained.vocab").read_text().splitlines()]
    (folder / "vocab.txt").write_text("\n".join(names) + "\n")
    tokenizer = {"dir": str(folder), "type": "bpe"}
    return {"sample_rate": 16000, "tokenizer": tokenizer, "preprocessor": FEATURES, "encoder": CONFORMER}


def pieces(folder):
    return made("EncDecCTCModelBPE", {**with_pieces(folder), "decoder": CTC_DECODER})


def transducer(folder, kind="rnnt"):
    """An RNN-T, or a hybrid of a TDT and a CTC decoder."""
    more = {"num_extra_outputs": len(DURATIONS)} if kind == "tdt" else {}
    network = {"joint_hidden": 14, "encoder_hidden": 16, "pred_hidden": 12, "activation": "relu", "dropout": 0.0}
    config = {
        **with_pieces(folder),
        **(TDT if kind == "tdt" else RNNT),
        "model_defaults": {
            "enc_hidden": 16, "pred_hidden": 12, "joint_hidden": 14, "tdt_durations": DURATIONS,
            "num_tdt_durations": len(DURATIONS),
        },
        "decoder": {
            "_target_": f"{MODULES}RNNTDecoder", "normalization_mode": None, "random_state_sampling": False,
            "blank_as_pad": True, "prednet": {"pred_hidden": 12, "pred_rnn_layers": 1, "dropout": 0.0},
        },
        "joint": {
            "_target_": f"{MODULES}RNNTJoint", "log_softmax": None, "preserve_memory": False, "fuse_loss_wer": False,
            "fused_batch_size": -1, "jointnet": network, **more,
        },
    }  # fmt: skip
    if kind == "tdt":
        config["aux_ctc"] = {"ctc_loss_weight": 0.3, "decoder": CTC_DECODER, "decoding": {"strategy": "greedy"}}
    return made("EncDecHybridRNNTCTCBPEModel" if kind == "tdt" else "EncDecRNNTBPEModel", config)


def audio():
    """Tones of a quarter of a second with noise, in three lengths."""
    found = []
    for seed, size in enumerate((16000, 24000, 36000)):
        rng = np.random.default_rng(seed)
        pitch = np.repeat(rng.uniform(100, 6000, size // 4000), 4000)
        loudness = np.repeat(rng.uniform(0.02, 0.8, size // 4000), 4000)
        tones = loudness * np.sin(2 * np.pi * pitch * np.arange(size) / 16000)
        found.append((tones + 0.01 * rng.normal(size=size)).astype(np.float32))
    return found
