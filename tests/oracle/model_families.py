"""Writes small models of every family with transformers, and what transformers computes with them.

usage: model_families.py FOLDER [SEED]     the seed chooses sizes as well as values

tests/oracle/families compares seppo with what this writes.
"""
import json
import os
import pathlib
import random
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers as hf

hf.logging.set_verbosity_error()

out = pathlib.Path(sys.argv[1])
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
draw = random.Random(seed)
KV_HEADS = draw.choice([1, 2, 3])
HEADS = KV_HEADS * draw.choice([1, 2])
WIDTH = draw.choice([8, 12])  # of a head
D = HEADS * WIDTH
HEAD_DIM = draw.choice([WIDTH + 4, WIDTH * 2])
VOCABULARY, INNER, LAYERS = draw.randint(40, 90), draw.randint(20, 90), draw.randint(1, 4)
WINDOW = draw.randint(1, 12)
ATTENTION_SCALAR = draw.choice([HEAD_DIM, draw.randint(5, 40)])

TOKENS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=None)
SIZES = dict(TOKENS, vocab_size=VOCABULARY, hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
             intermediate_size=INNER, max_position_embeddings=64, initializer_range=0.15)
GROUPED = dict(SIZES, num_key_value_heads=KV_HEADS)
SLIDING = ["sliding_attention" if draw.random() < 0.5 else "full_attention" for _ in range(LAYERS)]


def llama(**other):
    return hf.LlamaForCausalLM, hf.LlamaConfig(**{**GROUPED, **other})


def rope(**parameters):
    return llama(rope_parameters=dict(rope_theta=draw.choice([1e4, 5e5]), **parameters))


def falcon(**other):
    return hf.FalconForCausalLM, hf.FalconConfig(**{**TOKENS, **dict(
        vocab_size=VOCABULARY, hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        initializer_range=0.15), **other})


GEMMA = dict(GROUPED, head_dim=HEAD_DIM)
STABLELM = dict(GROUPED, rope_parameters=dict(rope_type="default", rope_theta=1e4,  # an even number of columns is turned
                                              partial_rotary_factor=0.25 if WIDTH == 8 else 0.5))
NEOX = dict(SIZES, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5))
MODELS = {
    "llama": lambda: llama(tie_word_embeddings=True, hidden_act="gelu"),
    "llama_biases": lambda: llama(attention_bias=True, mlp_bias=True),
    "llama_head_dim": lambda: llama(head_dim=HEAD_DIM),
    "llama_linear": lambda: rope(rope_type="linear", factor=3.0),
    "llama_dynamic": lambda: rope(rope_type="dynamic", factor=3.0),
    "llama_llama3": lambda: rope(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0,
                                 original_max_position_embeddings=20),
    "llama_31": lambda: rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=8192),
    "llama_yarn": lambda: rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
    "llama_yarn_options": lambda: rope(rope_type="yarn", factor=3.0, original_max_position_embeddings=20, beta_fast=8.0,
                                       beta_slow=2.0, truncate=False, attention_factor=0.8),
    "llama_yarn_mscale": lambda: rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.5,
                                      mscale_all_dim=0.5),
    "gpt2": lambda: (hf.GPT2LMHeadModel, hf.GPT2Config(
        **TOKENS, vocab_size=VOCABULARY, n_embd=D, n_layer=LAYERS, n_head=HEADS, n_positions=64, n_inner=INNER,
        initializer_range=0.15, activation_function=draw.choice(["relu", "gelu", "gelu_new"]))),
    "mistral": lambda: (hf.MistralForCausalLM, hf.MistralConfig(**GROUPED, sliding_window=WINDOW)),
    "mixtral": lambda: (hf.MixtralForCausalLM, hf.MixtralConfig(
        **GROUPED, num_local_experts=5, num_experts_per_tok=3, sliding_window=WINDOW)),
    "qwen2": lambda: (hf.Qwen2ForCausalLM, hf.Qwen2Config(
        **GROUPED, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=LAYERS // 2)),
    "qwen3": lambda: (hf.Qwen3ForCausalLM, hf.Qwen3Config(**GROUPED, head_dim=HEAD_DIM, attention_bias=True)),
    "smollm3": lambda: (hf.SmolLM3ForCausalLM, hf.SmolLM3Config(**GROUPED, no_rope_layer_interval=2)),
    "smollm3_usual": lambda: (hf.SmolLM3ForCausalLM, hf.SmolLM3Config(**{**GROUPED, "num_hidden_layers": 5})),
    "granite": lambda: (hf.GraniteForCausalLM, hf.GraniteConfig(
        **GROUPED, embedding_multiplier=2.0, residual_multiplier=0.4, attention_multiplier=0.3, logits_scaling=3.0,
        attention_bias=True, mlp_bias=True)),
    "olmo2": lambda: (hf.Olmo2ForCausalLM, hf.Olmo2Config(**GROUPED)),
    "phi3": lambda: (hf.Phi3ForCausalLM, hf.Phi3Config(
        **GROUPED, sliding_window=WINDOW,
        rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5))),
    "gemma": lambda: (hf.GemmaForCausalLM, hf.GemmaConfig(**GEMMA)),
    "gemma2": lambda: (hf.Gemma2ForCausalLM, hf.Gemma2Config(
        **GEMMA, sliding_window=WINDOW, query_pre_attn_scalar=ATTENTION_SCALAR, attn_logit_softcapping=5.0,
        final_logit_softcapping=8.0)),
    "gemma3": lambda: (hf.Gemma3ForCausalLM, hf.Gemma3TextConfig(
        **GEMMA, sliding_window=WINDOW, layer_types=SLIDING, query_pre_attn_scalar=ATTENTION_SCALAR)),
    "phi": lambda: (hf.PhiForCausalLM, hf.PhiConfig(**GROUPED)),
    "phi_norms": lambda: (hf.PhiForCausalLM, hf.PhiConfig(**GROUPED, qk_layernorm=True)),
    "gpt_neox": lambda: (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**NEOX)),
    "gpt_neox_in_turn": lambda: (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(
        **NEOX, use_parallel_residual=False, attention_bias=False)),
    "stablelm": lambda: (hf.StableLmForCausalLM, hf.StableLmConfig(**STABLELM, use_qkv_bias=True)),
    "stablelm_parallel": lambda: (hf.StableLmForCausalLM, hf.StableLmConfig(**STABLELM, use_parallel_residual=True)),
    "falcon": lambda: falcon(bias=True),
    "falcon_heads": lambda: falcon(multi_query=False, parallel_attn=False),
    "falcon_new": lambda: falcon(new_decoder_architecture=True, num_kv_heads=KV_HEADS),
    "falcon_new_one_norm": lambda: falcon(new_decoder_architecture=True, num_kv_heads=KV_HEADS,
                                          num_ln_in_parallel_attn=1),
    "cohere": lambda: (hf.CohereForCausalLM, hf.CohereConfig(**GROUPED, attention_bias=True)),
    "opt": lambda: (hf.OPTForCausalLM, hf.OPTConfig(
        vocab_size=VOCABULARY, hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=HEADS, ffn_dim=INNER,
        max_position_embeddings=64, word_embed_proj_dim=D, bos_token_id=1, eos_token_id=2, pad_token_id=0,
        enable_bias=draw.random() < 0.5, init_std=0.15)),
    "bloom": lambda: (hf.BloomForCausalLM, hf.BloomConfig(
        **TOKENS, vocab_size=VOCABULARY, hidden_size=D, n_layer=LAYERS, n_head=HEADS, initializer_range=0.15)),
    # Without what GGUF files cannot say.
    "mixtral_usual": lambda: (hf.MixtralForCausalLM, hf.MixtralConfig(
        **GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    "qwen2_usual": lambda: (hf.Qwen2ForCausalLM, hf.Qwen2Config(**GROUPED)),
    "qwen3_usual": lambda: (hf.Qwen3ForCausalLM, hf.Qwen3Config(**GROUPED, head_dim=HEAD_DIM)),
    "cohere_usual": lambda: (hf.CohereForCausalLM, hf.CohereConfig(**GROUPED)),
}


def write(name, maker, config):
    folder = out / name
    model = maker(config)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too
            parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    options = dict(dtype=torch.float64, attn_implementation="eager")
    if name.startswith("mixtral"):
        options["experts_implementation"] = "eager"
    model = hf.AutoModelForCausalLM.from_pretrained(folder, **options).eval()
    ids = torch.randint(3, VOCABULARY, (1, 24))
    with torch.no_grad():
        logits = model(ids).logits[0]
        text = ids[0, :6].tolist()
        for _ in range(16):
            text.append(model(torch.tensor([text])).logits[0, -1].argmax().item())
    expected = dict(ids=ids[0].tolist(), rows=list(range(24)), logits=logits.tolist(), prompt=text[:6], greedy=text[6:])
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


for number, (name, make) in enumerate(MODELS.items()):
    torch.manual_seed(1000 * seed + number)
    write(name, *make())
