#!/usr/bin/python3
"""Foreign weights: PyTorch's outputs for models that this script makes, and for the same models saved by seppo.

foreign.py write DIR writes NAME.safetensors for each model, and its inputs and outputs to cases.jsonl; check_foreign
loads these, compares, and writes NAME.back.safetensors; foreign.py check DIR loads those into new models and compares;
foreign.py program DIR GPT2_IMPORT checks what the program prints. Exits with 77 if PyTorch is not installed.
"""
import json
import struct
import subprocess
import sys
from pathlib import Path

try:
    import torch
except ImportError:
    print("skipped: other people's weights; install python3-torch", file=sys.stderr)
    sys.exit(77)
import torch.nn as nn
import torch.nn.functional as F

from foreign_models import GPT2, Llama
from torch_modules import causal, flat, padding, ragged, run, transformer

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def save(path, tensors):
    """Writes the safetensors format: 8 bytes of length, JSON, data."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, t in tensors.items():
        raw = t.contiguous().view(torch.int16) if t.dtype == torch.bfloat16 else t.contiguous()
        raw = raw.numpy().tobytes()
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path):
    content = path.read_bytes()
    size, = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + size])
    assert header.pop("__metadata__")["format"] == "pt"
    return {name: torch.frombuffer(bytearray(content[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]),
                                   dtype=TYPES[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}


def cases():
    """(name, seppo's module, arguments, module, inputs, lengths, function); of the output, only the rows within the
    last lengths are compared."""
    a, b = [5, 2, 4], [3, 6, 1]  # source and target
    src, tgt = torch.randn(3, 5, 8), torch.randn(3, 6, 8)
    linear, norm, embedding = nn.Linear(8, 6), nn.LayerNorm(8), nn.Embedding(11, 8)
    yield "linear", "linear", {"out": 6}, linear, [src], [a], linear
    yield "layer_norm", "layer_norm", {}, norm, [src], [a], norm
    ids = torch.randint(0, 11, (3, 5))
    yield "embedding", "embedding", {"vocabulary": 11}, embedding, [ids[..., None]], [a], lambda x: embedding(x[..., 0].long())
    mha = nn.MultiheadAttention(8, 2, batch_first=True)
    yield "attention", "cross_attention", {"heads": 2}, mha, [src, tgt], [a, b], \
        lambda m, x: mha(x, m, m, key_padding_mask=padding(a), need_weights=False)[0]
    for pre in (False, True):
        for activation in ("relu", "gelu"):
            config = {"heads": 2, "ff": 12, "pre": pre, "activation": activation}
            options = dict(d_model=8, nhead=2, dim_feedforward=12, dropout=0.0, activation=activation, batch_first=True,
                           norm_first=pre)
            kind = ("pre_" if pre else "post_") + activation
            layer, decoder = nn.TransformerEncoderLayer(**options), nn.TransformerDecoderLayer(**options)
            yield "encoder_layer_" + kind, "encoder_layer", config, layer, [src], [a], \
                lambda x: layer(x, src_key_padding_mask=padding(a))
            yield "decoder_layer_" + kind, "decoder_layer", config, decoder, [src, tgt], [a, b], \
                lambda m, x: decoder(x, m, tgt_mask=causal(6), tgt_key_padding_mask=padding(b),
                                     memory_key_padding_mask=padding(a))
        whole = transformer(8, 2, 12, 2, pre)
        yield f"transformer_{'pre' if pre else 'post'}", "transformer", {**config, "activation": "relu", "layers": 2}, \
            whole, [src, tgt], [a, b], lambda s, t: run(whole, s, t, a, b)
    # PyTorch's default: final norms after post-norm layers, which the paper does not have.
    whole = nn.Transformer(8, 2, 2, 2, 12, 0.0, batch_first=True)
    yield "transformer_default", "transformer", {**config, "pre": False, "activation": "relu", "layers": 2, "norms": True}, \
        whole, [src, tgt], [a, b], lambda s, t: run(whole, s, t, a, b)
    tokens = torch.randint(0, 13, (3, 6, 1)).float()
    for dtype in ("F32", "F64", "F16", "BF16"):
        gpt2 = GPT2(13, 7, 8, 2, 2)
        yield f"gpt2_{dtype}", "gpt2", {"heads": 2, "layers": 2, "vocabulary": 13, "length": 7, "ff": 32, "dtype": dtype}, \
            gpt2, [tokens], [b], lambda x: gpt2(x[..., 0].long())
    for tied in (False, True):
        llama = Llama(13, 16, 2, 4, 2, 24, tied)
        yield "llama" + ("_tied" if tied else ""), "llama", \
            {"heads": 4, "kv_heads": 2, "layers": 2, "vocabulary": 13, "d_model": 16, "length": 9, "ff": 24, "tied": tied}, \
            llama, [tokens], [b], lambda x: llama(x[..., 0].long())


def check_program(folder, program):
    """gpt2_import on files with and without the prefix, and on invalid files and arguments."""
    torch.manual_seed(2)
    gpt2 = GPT2(29, 12, 24, 3, 3)
    for p in gpt2.parameters():
        nn.init.normal_(p, 0, 0.3)
    text = [3, 1, 4, 1, 5, 9, 2, 6]
    logits = gpt2(torch.tensor([text]))[0]
    loss = F.cross_entropy(logits[:-1], torch.tensor(text[1:])).item()
    tokens = text[:]
    for _ in range(4):  # stays within the window of 12
        tokens.append(gpt2(torch.tensor([tokens]))[0, -1].argmax().item())
    path = folder / "program.safetensors"
    for prefix in ("", "transformer."):
        save(path, {prefix + n: t for n, t in gpt2.state_dict().items()})
        output = subprocess.run([program, path, "3", *map(str, text)], stdout=subprocess.PIPE, check=True, text=True).stdout
        printed = {line.split()[0]: [float(x) for x in line.split()[1:]] for line in output.splitlines()}
        assert printed["parameters"] == [sum(p.numel() for p in gpt2.parameters())], output
        assert torch.allclose(torch.tensor(printed["logits"]), logits[-1, :8], atol=1e-5, rtol=1e-5), (output, logits[-1])
        assert abs(printed["loss"][0] - loss) < 1e-5 * loss, (output, loss)
        assert printed["continuation"][:4] == tokens[len(text):], (output, tokens)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    for arguments, code in (([path, "3", "1"], 1), ([folder / "none", "3", "1"], 74), ([path], 2), ([path, "x", "1"], 2),
                            ([path, "3x", "1"], 2), ([path, "3", "1", "2y"], 2)):
        ended = subprocess.run([program, *arguments], capture_output=True, text=True)
        assert ended.returncode == code and ended.stdout == "" and ended.stderr.count("\n") == 1, ended
    print("gpt2_import computes what PyTorch does")


def main():
    folder = Path(sys.argv[2])
    if sys.argv[1] == "program":
        return check_program(folder, sys.argv[3])
    is_written = sys.argv[1] == "check"
    torch.manual_seed(1)
    torch.set_num_threads(1)
    expected = [json.loads(line) for line in open(folder / "cases.jsonl")] if is_written else []
    lines, worst = [], 0
    for number, (name, op, args, module, inputs, lengths, function) in enumerate(cases()):
        dtype = TYPES[args.get("dtype", "F32")]
        for p in module.parameters():
            nn.init.normal_(p, 0, 0.3)
            p.data = p.data.to(dtype).float() * (not is_written)
        if not is_written:
            save(folder / (name + ".safetensors"),
                 {n: t if t.dtype == torch.bool else t.to(dtype) for n, t in module.state_dict().items()})
        else:
            back = load(folder / (name + ".back.safetensors"))
            assert set(back) == {n for n, t in module.state_dict().items() if t.dtype != torch.bool}, name
            module.load_state_dict(back, strict=False)
        with torch.no_grad():
            output = ragged(function(*inputs), lengths[-1])
        if is_written:
            case = expected[number]
            assert case["name"] == name
            was = torch.tensor(case["output"]["data"]).reshape(case["output"]["shape"])
            difference = (output - was).abs().max().item()
            worst = max(worst, difference)
            if not difference <= 1e-6 * max(1, was.abs().max().item()):
                sys.exit(f"{name}: PyTorch computes something else with what seppo wrote: {difference} apart")
        lines.append(json.dumps({"name": name, "op": op, "args": {**args, "lengths": lengths},
                                 "inputs": [flat(ragged(x, n)) for x, n in zip(inputs, lengths)], "output": flat(output)}))
    if is_written:
        print(f"{len(lines)} models came back, at most {worst} apart")
    else:
        (folder / "cases.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
