"""Writes folders of transformers' models as GGUF files, as llama.cpp's conversion does, with the package gguf.

usage: gguf_models.py OUT FOLDER...     each FOLDER has config.json, model.safetensors and expected.json

Names of tensors are the package's own. What a GGUF file cannot say is left out, and named.
"""
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
from safetensors import safe_open

ARCHITECTURES = {"llama": "LLAMA", "mistral": "LLAMA", "mixtral": "LLAMA", "qwen2": "QWEN2", "qwen3": "QWEN3",
                 "smollm3": "SMOLLM3", "granite": "GRANITE", "olmo2": "OLMO2", "phi3": "PHI3", "gemma": "GEMMA",
                 "gemma2": "GEMMA2", "gemma3_text": "GEMMA3", "phi": "PHI2", "gpt_neox": "GPTNEOX",
                 "stablelm": "STABLELM", "falcon": "FALCON", "cohere": "COMMAND_R", "gpt2": "GPT2", "bloom": "BLOOM"}
PAIRED = {"llama", "mistral", "mixtral", "smollm3", "granite"}  # rotated in adjacent columns
OFFSET = {"gemma", "gemma2", "gemma3_text"}  # norms of 1 + weight
BY_HEAD = {"gpt_neox", "falcon", "bloom"}  # queries, keys and values are stored head by head


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.type = self.config["model_type"]
        with safe_open(folder / "model.safetensors", "np") as file:
            self.tensors = {name: file.get_tensor(name) for name in file.keys()}
        self.width = self.first("hidden_size", "n_embd")
        self.heads = self.first("num_attention_heads", "n_head")
        self.kv_heads = self.first("num_key_value_heads", "num_kv_heads") or self.heads
        if self.type == "falcon" and self.config["multi_query"] and not self.config["new_decoder_architecture"]:
            self.kv_heads = 1
        self.head_width = self.config.get("head_dim") or self.width // self.heads
        self.layers = self.first("num_hidden_layers", "n_layer")
        both = self.config.get("rope_parameters") or {}
        self.rope = both.get("full_attention", both)
        self.local_rope = both.get("sliding_attention")

    def first(self, *keys):
        return next((self.config[key] for key in keys if self.config.get(key) is not None), None)


def can_have_biases(model):
    return model.type in ("llama", "granite", "smollm3")


def reason_to_leave_out(model):
    c = model.config
    if model.type not in ARCHITECTURES:
        return "llama.cpp has no such architecture"
    if model.rope.get("rope_type") in ("llama3",) and model.rope["original_max_position_embeddings"] != 8192:
        return "positions scaled from another length than 8192"
    if {"attention_factor", "truncate", "mscale"} & model.rope.keys():
        return "options of yarn"
    if model.type in ("mistral", "mixtral") and c.get("sliding_window"):
        return "windows, which llama.cpp's llama does not have"
    if model.first("hidden_act", "activation_function", "hidden_activation") not in (
            None, "silu", "gelu" if model.type == "gpt_neox" else "gelu_new", "gelu_pytorch_tanh"):
        return "another activation"
    if c.get("attention_bias", model.type == "gpt_neox") != (model.type == "gpt_neox") and not can_have_biases(model):
        return "biases where llama.cpp expects none, or none where it expects some"
    if model.type == "falcon" and (c["bias"] or not c["parallel_attn"]):
        return "Falcon's older forms"
    if model.type == "smollm3" and c["no_rope_layers"] != [int((i + 1) % 4 != 0) for i in range(model.layers)]:
        return "layers without positions other than every fourth"
    if model.type in ("qwen2", "qwen3", "smollm3") and "sliding_attention" in c.get("layer_types", []):
        return "windows in some layers"
    if model.type in ("gemma2", "gemma3_text") and c["query_pre_attn_scalar"] != model.head_width:
        return "another scale of attention than that of a head's columns"
    if c.get("qk_layernorm") or c.get("use_qk_norm"):
        return "norms of queries"
    return None


def inner_width(model):
    return model.first("intermediate_size", "n_inner", "ffn_hidden_size") or 4 * model.width


def add_rope(writer, model):
    c, rope = model.config, model.rope
    if model.type in ("gpt2", "bloom"):
        return
    share = rope.get("partial_rotary_factor", c.get("partial_rotary_factor", 1))
    writer.add_rope_dimension_count(int(share * model.head_width))
    writer.add_rope_freq_base(rope.get("rope_theta", 10000))
    if model.local_rope:
        writer.add_rope_freq_base_swa(model.local_rope["rope_theta"])
    kind = rope.get("rope_type")
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    elif kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(model))
    elif model.type == "cohere":
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def llama3_factors(model):
    rope = model.rope
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    old = rope["original_max_position_embeddings"]
    factors = []
    for i in range(0, model.head_width, 2):
        length = 2 * np.pi * rope["rope_theta"] ** (i / model.head_width)
        if length < old / high:
            factors.append(1)
        elif length > old / low:
            factors.append(factor)
        else:
            smooth = (old / length - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def add_config(writer, model):
    c = model.config
    writer.add_context_length(model.first("max_position_embeddings", "n_positions", "seq_length") or 2048)
    writer.add_embedding_length(model.width)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(inner_width(model))
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_vocab_size(c["vocab_size"])
    if c.get("head_dim"):
        writer.add_key_length(c["head_dim"])
        writer.add_value_length(c["head_dim"])
    if "rms_norm_eps" in c:
        writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    else:
        writer.add_layer_norm_eps(model.first("layer_norm_eps", "layer_norm_epsilon"))
    add_rope(writer, model)
    if c.get("use_parallel_residual") is not None:
        writer.add_parallel_residual(c["use_parallel_residual"])
    if c.get("num_local_experts"):
        writer.add_expert_count(c["num_local_experts"])
        writer.add_expert_used_count(c["num_experts_per_tok"])
    if c.get("sliding_window") and model.type in ("gemma2", "gemma3_text", "phi3"):
        writer.add_sliding_window(c["sliding_window"])
    if model.type in ("gemma2", "gemma3_text"):
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in c["layer_types"]])
        if c.get("attn_logit_softcapping"):
            writer.add_attn_logit_softcapping(c["attn_logit_softcapping"])
        if c.get("final_logit_softcapping"):
            writer.add_final_logit_softcapping(c["final_logit_softcapping"])
    if model.type == "granite":
        writer.add_attention_scale(c["attention_multiplier"])
        writer.add_embedding_scale(c["embedding_multiplier"])
        writer.add_residual_scale(c["residual_multiplier"])
        writer.add_logit_scale(c["logits_scaling"])
    if model.type == "cohere":
        writer.add_logit_scale(c["logit_scale"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def paired(values, heads):
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def stacked(values, model):
    """Rows that are ordered by heads of keys, as all queries, then all keys, then all values."""
    shared = model.heads // model.kv_heads
    groups = values.reshape(model.kv_heads, shared + 2, model.head_width, *values.shape[1:])
    parts = groups[:, :shared], groups[:, shared], groups[:, shared + 1]
    return np.concatenate([part.reshape(-1, *values.shape[1:]) for part in parts])


def put_in_order(name, values, model):
    if model.type in PAIRED and ".q_proj." in name:
        return paired(values, model.heads)
    if model.type in PAIRED and ".k_proj." in name:
        return paired(values, model.kv_heads)
    if model.type in BY_HEAD and ".query_key_value." in name:
        return stacked(values, model)
    if model.type in OFFSET and name.endswith("norm.weight"):
        return values + 1
    if model.type == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return values.T
    return values


def merged_experts(model):
    """One tensor of all experts of a layer for each of their three matrices."""
    tensors = dict(model.tensors)
    for layer in range(model.layers):
        before = f"model.layers.{layer}.block_sparse_moe.experts."
        for matrix in ("w1", "w2", "w3"):
            each = [tensors.pop(f"{before}{e}.{matrix}.weight") for e in range(model.config["num_local_experts"])]
            tensors[f"layers.{layer}.feed_forward.experts.{matrix}.weight"] = np.stack(each)
    return tensors


def write(model, path):
    architecture = getattr(gguf.MODEL_ARCH, ARCHITECTURES[model.type])
    names = gguf.get_tensor_name_map(architecture, model.layers)
    writer = gguf.GGUFWriter(str(path), gguf.MODEL_ARCH_NAMES[architecture])
    add_config(writer, model)
    tensors = merged_experts(model) if model.type == "mixtral" else model.tensors
    is_tied = model.config.get("tie_word_embeddings") and "lm_head.weight" not in tensors
    for name, values in tensors.items():
        if is_tied and name.startswith("lm_head"):
            continue
        known = [names.get_name(one, try_suffixes=(".weight", ".bias"))
                 for one in (name, name.removeprefix("transformer."))]
        new = known[0] or known[1]
        if new is None:
            sys.exit(f"gguf_models: the package has no name for {name} of {model.type}")
        writer.add_tensor(new, np.ascontiguousarray(put_in_order(name, values, model).astype(np.float32)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


out = pathlib.Path(sys.argv[1])
for folder in map(pathlib.Path, sys.argv[2:]):
    model = Model(folder)
    reason = reason_to_leave_out(model)
    if reason:
        print(f"left out: {folder.name}: {reason}")
        continue
    (out / folder.name).mkdir(parents=True)
    write(model, out / folder.name / "model.gguf")
    shutil.copy(folder / "expected.json", out / folder.name)
