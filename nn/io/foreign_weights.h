// How other programs name the parameters of seppo's models: options for load_weights and save_weights.
// docs/foreign-weights.md explains the tables and the configs that go with them.
//
//   load_weights("model.safetensors", parameters, gpt2_weights());
#pragma once

#include "checkpoint.h"

#include <functional>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// A renaming function from a table of ECMAScript regular expressions, "ffn.up -> fc1, self_attn.in_proj ->
// attn.{q,k,v}". Each in turn, where it matches whole words, is replaced by its right side, in which $1 is the first
// group, and {q,k,v} makes a stack of three. Throws ArgumentError if the table is malformed.
std::function<std::vector<std::string>(const std::string&)> renaming(const std::string& table);

// PyTorch: nn.Linear, Embedding, LayerNorm and BatchNorm1d use the same names as seppo; MultiheadAttention,
// TransformerEncoder, TransformerDecoder, their layers and the two stacks of nn.Transformer use these.
WeightOptions torch_weights();

// GPT-2 (Radford et al. 2019) as stored in Hugging Face's `gpt2`, for a LanguageModel; with the prefix "transformer.",
// as GPT2LMHeadModel saves it. The matrices of its layers are stored transposed, and the file contains masks that are
// not parameters. An output layer that is not tied to the embedding has no prefix.
WeightOptions gpt2_weights(const std::string& prefix = "");
std::string gpt2_names(const std::string& prefix = "");  // its table for renaming()

// LLaMA (Touvron et al. 2023) as Hugging Face's LlamaForCausalLM saves it, for a LanguageModel with these numbers of
// heads for queries, and for keys and values.
WeightOptions llama_weights(int n_heads, int n_kv_heads);
std::string llama_names();  // its table for renaming()

// BERT (Devlin et al. 2019) as Hugging Face's BertModel saves it, for a Bert (models/bert.h) in the root; as
// BertForMaskedLM saves it, for a Bert in the scope "bert" and a MaskedHead in the scope "cls". The pooler and the head
// for next sentences, which neither has, are passed over, as are copies of tied weights. Files of 2018 and 2019, such
// as bert-base-uncased's, call the weight and the bias of norms gamma and beta (`has_gamma`).
WeightOptions bert_weights(bool has_gamma = false);

// T5 (Raffel et al. 2020) as Hugging Face's T5ForConditionalGeneration saves it, for a T5 (models/t5.h) in the root,
// whose feed-forward networks may have a gate. Copies of the embedding are passed over, and the table of distances to
// the memory that the first files have beside it, which no model uses.
WeightOptions t5_weights(bool is_gated);

// Marian's translation models (Junczys-Dowmunt et al. 2018) as Hugging Face's MarianMTModel saves them, for a Marian
// (models/marian.h) in the root. Copies of the embedding, and the table of positions, are passed over.
WeightOptions marian_weights();

}  // namespace SEPPO_ABI
}  // namespace seppo
