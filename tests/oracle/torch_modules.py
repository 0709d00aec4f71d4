"""Cases of whole modules, optimisers and schedules; see torch_cases.py."""
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def flat(tensor):
    return {"shape": list(tensor.shape), "data": tensor.detach().double().reshape(-1).tolist()}


# PyTorch's and seppo's names of the parameters of encoder and decoder layers
NAMES = [("multihead_attn.", "cross_attn."), ("in_proj_weight", "in_proj.weight"), ("in_proj_bias", "in_proj.bias"),
         ("q_proj_weight", "in_proj.weight"), ("k_proj_weight", "k_proj.weight"), ("v_proj_weight", "v_proj.weight"),
         ("linear1", "ffn.up"), ("linear2", "ffn.down"), ("encoder.layers.", "encoder."), ("decoder.layers.", "decoder.")]


def seppo_name(name):
    for theirs, ours in NAMES:
        name = name.replace(theirs, ours)
    return name


def ragged(x, lengths):
    """[batch, longest, d] without its padding: [rows, d]"""
    return torch.cat([x[i, :n] for i, n in enumerate(lengths)])


def padding(lengths):
    return torch.arange(max(lengths))[None, :] >= torch.tensor(lengths)[:, None]


def causal(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), 1)


def module_case(kind, module, inputs, lengths, function, config):
    """function(*inputs) returns the padded output, of which only the rows within the last lengths count."""
    for p in module.parameters():
        nn.init.normal_(p, 0, 0.3)
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    output = ragged(function(*leaves), lengths[-1])
    cotangent = torch.randn_like(output)
    named = dict(module.named_parameters())
    gradients = torch.autograd.grad(output, leaves + list(named.values()), cotangent)
    print(json.dumps({
        "op": kind, "args": {**config, "lengths": lengths},
        "inputs": [flat(ragged(x, n)) for x, n in zip(leaves, lengths)],
        "cotangent": flat(cotangent)["data"], "output": flat(output),
        "gradients": [flat(ragged(g, n))["data"] for g, n in zip(gradients, lengths)],
        "parameters": {seppo_name(n): flat(p) for n, p in named.items()},
        "parameter_gradients": {seppo_name(n): flat(g)["data"] for n, g in zip(named, gradients[len(leaves):])}}))


def module_cases():
    torch.set_default_dtype(torch.float64)
    a, b = [5, 2, 4], [3, 6, 1]  # source and target lengths
    src, tgt = torch.randn(3, 5, 8), torch.randn(3, 6, 8)
    for heads in (1, 2, 4):
        mha = nn.MultiheadAttention(8, heads, batch_first=True)
        module_case("self_attention", mha, [src], [a],
                    lambda x: mha(x, x, x, key_padding_mask=padding(a), need_weights=False)[0], {"heads": heads})
        module_case("causal_attention", mha, [src], [a],
                    lambda x: mha(x, x, x, key_padding_mask=padding(a), attn_mask=causal(5), need_weights=False)[0],
                    {"heads": heads})
        module_case("cross_attention", mha, [src, tgt], [a, b],
                    lambda m, x: mha(x, m, m, key_padding_mask=padding(a), need_weights=False)[0], {"heads": heads})
    three = nn.MultiheadAttention(8, 2, bias=False, kdim=5, vdim=7, batch_first=True)
    near = torch.randn(6, 5)  # added to the scores
    module_case("three_inputs", three, [torch.randn(3, 5, 5), torch.randn(3, 5, 7), tgt], [a, a, b],
                lambda k, v, q: three(q, k, v, key_padding_mask=padding(a), attn_mask=near, need_weights=False)[0],
                {"near": flat(near)})
    for pre in (False, True):
        for activation in ("relu", "gelu"):
            config = {"heads": 2, "ff": 12, "pre": pre, "activation": activation}
            options = dict(d_model=8, nhead=2, dim_feedforward=12, dropout=0.0, activation=activation, batch_first=True,
                           norm_first=pre)
            layer = nn.TransformerEncoderLayer(**options)
            module_case("encoder_layer", layer, [src], [a], lambda x: layer(x, src_key_padding_mask=padding(a)), config)
            decoder = nn.TransformerDecoderLayer(**options)
            module_case("decoder_layer", decoder, [src, tgt], [a, b],
                        lambda m, x: decoder(x, m, tgt_mask=causal(6), tgt_key_padding_mask=padding(b),
                                             memory_key_padding_mask=padding(a)), config)
        whole = transformer(8, 2, 12, 2, pre)
        module_case("transformer", whole, [src, tgt], [a, b], lambda s, t: run(whole, s, t, a, b),
                    {"heads": 2, "ff": 12, "pre": pre, "activation": "relu", "layers": 2})
    optimiser_cases()


def transformer(d, heads, ff, layers, pre):
    """nn.Transformer; with post-norm, without the final norms, which the paper does not have."""
    custom = {}
    if not pre:
        options = dict(d_model=d, nhead=heads, dim_feedforward=ff, dropout=0.0, batch_first=True)
        custom = {"custom_encoder": nn.TransformerEncoder(nn.TransformerEncoderLayer(**options), layers, None),
                  "custom_decoder": nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), layers, None)}
    return nn.Transformer(d, heads, layers, layers, ff, 0.0, batch_first=True, norm_first=pre, **custom)


def run(model, src, tgt, a, b):
    return model(src, tgt, tgt_mask=causal(tgt.shape[1]).to(src.device), src_key_padding_mask=padding(a),
                 tgt_key_padding_mask=padding(b), memory_key_padding_mask=padding(a))


def optimiser_cases():
    """100 optimiser steps with given gradients, and the learning rates of schedules."""
    steps, shape = 100, (3, 4)
    gradients = torch.randn(steps, *shape)
    start = torch.randn(shape)
    for name, optimiser, decay, decoupled in [("Adam", torch.optim.Adam, 0.0, True), ("Adam", torch.optim.Adam, 0.1, False),
                                              ("AdamW", torch.optim.AdamW, 0.1, True)]:
        p = nn.Parameter(start.clone())
        adam = optimiser([p], lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=decay)
        for g in gradients:
            p.grad = g.clone()
            adam.step()
        print(json.dumps({"op": "adam", "args": {"decay": decay, "decoupled": decoupled, "lr": 0.01, "steps": steps},
                          "inputs": [flat(start), flat(gradients)], "output": flat(p)}))
    for eps, initial, decay in ((1e-10, 0.0, 0.0), (0.1, 0.3, 0.1)):
        config = {"eps": eps, "initial_accumulator_value": initial, "weight_decay": decay}
        p = nn.Parameter(start.clone())
        adagrad = torch.optim.Adagrad([p], lr=0.01, **config)
        for g in gradients:
            p.grad = g.clone()
            adagrad.step()
        print(json.dumps({"op": "adagrad", "args": {"lr": 0.01, "steps": steps, **config},
                          "inputs": [flat(start), flat(gradients)], "output": flat(p)}))
    p = nn.Parameter(start.clone())

    def rates(make):
        optimiser = torch.optim.SGD([p], lr=0.3)
        schedule = make(optimiser)
        values = []
        for _ in range(steps):
            optimiser.step()
            schedule.step()
            values.append(schedule.get_last_lr()[0])
        return values

    schedules = torch.optim.lr_scheduler
    for name, make in [
            ("cosine", lambda o: schedules.CosineAnnealingLR(o, steps, eta_min=0.02)),
            ("linear", lambda o: schedules.LinearLR(o, 1.0, 0.1, steps)),
            ("noam", lambda o: schedules.LambdaLR(o, lambda s: 64 ** -0.5 * min(max(s, 1) ** -0.5, s * 20 ** -1.5) / 0.3))]:  # of the base rate, 0.3
        print(json.dumps({"op": "schedule", "args": {"name": name, "steps": steps}, "inputs": [],
                          "output": {"shape": [steps], "data": rates(make)}}))


    for rise, div, final in ((0.3, 25.0, 1e4), (0.45, 10.0, 50.0)):
        optimiser = torch.optim.SGD([p], lr=0.3)
        schedule = schedules.OneCycleLR(optimiser, 0.3, total_steps=steps, pct_start=rise, div_factor=div,
                                        final_div_factor=final, cycle_momentum=False)
        values = []
        for step in range(steps):
            values.append(schedule.get_last_lr()[0])
            optimiser.step()
            if step + 1 < steps:
                schedule.step()
        print(json.dumps({"op": "one_cycle", "args": {"rise": rise, "start": 1 / div, "end": 1 / div / final,
                                                      "steps": steps},
                          "inputs": [], "output": {"shape": [steps], "data": values}}))


def float32_cases(all_sizes):
    """Parameter gradients of whole Transformers with a loss on their outputs. Lengths are ragged, and the error of
    PyTorch's own float32 gradients sets the limit."""
    for seed in range(4 if all_sizes else 2):
        for d, heads, ff, layers in ((64, 4, 256, 2), (128, 8, 512, 3))[:2 if all_sizes else 1]:
            torch.manual_seed(seed)
            torch.set_default_dtype(torch.float32)
            model = transformer(d, heads, ff, layers, False)
            vocabulary = 50
            out = nn.Linear(d, vocabulary)
            everything = nn.ModuleDict({"model": model, "output": out})
            a = torch.randint(8, 25, (16,)).tolist()
            b = torch.randint(6, 20, (16,)).tolist()
            src, tgt = torch.randn(16, max(a), d), torch.randn(16, max(b), d)
            targets = [torch.randint(0, vocabulary, (n,)) for n in b]

            def gradients(dtype):
                net = everything.to(dtype)
                net.zero_grad()
                logits = ragged(net["output"](run(net["model"], src.to(dtype), tgt.to(dtype), a, b)), b)
                loss = F.cross_entropy(logits, torch.cat(targets))
                loss.backward()
                return loss.item(), {n: p.grad.double().clone() for n, p in net.named_parameters()}

            loss32, single = gradients(torch.float32)
            loss, exact = gradients(torch.float64)
            norm = math.sqrt(sum((g * g).sum().item() for g in exact.values()))
            error = math.sqrt(sum(((single[n] - exact[n]) ** 2).sum().item() for n in exact)) / norm
            name = lambda n: seppo_name(n).replace("model.", "")
            print(json.dumps({
                "op": "float32", "args": {"heads": heads, "ff": ff, "pre": False, "activation": "relu", "layers": layers,
                                          "lengths": [a, b], "targets": torch.cat(targets).tolist(), "torch_error": error},
                "inputs": [flat(ragged(src, a)), flat(ragged(tgt, b))], "output": {"shape": [], "data": [loss]},
                "parameters": {name(n): flat(p) for n, p in everything.named_parameters()},
                "parameter_gradients": {name(n): flat(g)["data"] for n, g in exact.items()}}))
