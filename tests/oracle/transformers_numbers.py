#!/usr/bin/env python3
"""The numbers of Hugging Face's transformers in tests/models/test_bert.cpp, test_t5.cpp and test_marian.cpp.

  transformers_numbers.py    prints the logits of the last row of each small model

Their parameters are 0.3 sin(n) for n = 1, 2, ..., through all tensors in the order of their names (tests/support/
sine_weights.h), and the models compute in double precision, but for T5's norms. Needs the packages torch and
transformers, of any version since 4.41.
"""
import math

import torch
from transformers import BertConfig, BertForMaskedLM, MarianConfig, MarianMTModel, T5Config, T5ForConditionalGeneration

torch.set_default_dtype(torch.float64)


def filled(model):
    tensors = {name: p for name, p in model.named_parameters() if "embed_positions" not in name}
    if "final_logits_bias" in dict(model.named_buffers()):
        tensors["final_logits_bias"] = model.final_logits_bias
    n = 0
    with torch.no_grad():
        for _, tensor in sorted(tensors.items()):
            values = [0.3 * math.sin(n + i) for i in range(1, tensor.numel() + 1)]
            tensor.copy_(torch.tensor(values, dtype=torch.float64).view(tensor.shape))
            n += tensor.numel()
    return model.double().eval()


def show(name, logits):
    print(name, "{" + ", ".join(f"{v:.12g}" for v in logits[0, -1].tolist()) + "}")


bert = BertConfig(vocab_size=11, hidden_size=8, num_attention_heads=2, intermediate_size=12, num_hidden_layers=2,
                  max_position_embeddings=6)
text, other = [3, 1, 4, 1, 5], [2, 6, 5, 10]
with torch.no_grad():
    show("bert", filled(BertForMaskedLM(bert))(torch.tensor([text]), token_type_ids=torch.tensor([[0, 0, 0, 1, 1]])).logits)
    for is_gated in (False, True):
        t5 = T5Config(vocab_size=11, d_model=8, d_kv=3, d_ff=12, num_layers=2, num_decoder_layers=1, num_heads=2,
                      relative_attention_num_buckets=8, relative_attention_max_distance=6,
                      feed_forward_proj="gated-gelu" if is_gated else "relu", tie_word_embeddings=not is_gated)
        model = filled(T5ForConditionalGeneration(t5))
        far = text + other + text + other
        show(f"t5 gated={is_gated}", model(input_ids=torch.tensor([far]), decoder_input_ids=torch.tensor([far[::-1]])).logits)
    marian = MarianConfig(vocab_size=11, d_model=8, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
                          decoder_attention_heads=2, encoder_ffn_dim=12, decoder_ffn_dim=12, max_position_embeddings=16,
                          activation_function="swish", scale_embedding=True, pad_token_id=10, eos_token_id=0,
                          decoder_start_token_id=10)
    model = filled(MarianMTModel(marian))
    show("marian", model(input_ids=torch.tensor([text]), decoder_input_ids=torch.tensor([[10, *other]])).logits)
