// A translation model of Marian's (Junczys-Dowmunt et al. 2018) from Hugging Face, such as opus-mt-en-de. Each line of
// standard input is a source of token ids; prints its translation by beam search, after its log-probability.
//
//   marian opus-mt-en-de < ids      a folder with config.json and model.safetensors; without one, a small model is made
#include <seppo/autograd/core/printable.h>
#include <seppo/models/decoding/beam.h>
#include <seppo/models/hugging_face/config_keys.h>
#include <seppo/models/hugging_face/generation_config.h>
#include <seppo/models/marian.h>
#include <seppo/nn/io/foreign_weights.h>
#include <seppo/nn/io/sharded_weights.h>
#include <seppo/nn/io/text_file.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace seppo;
using nlohmann::json;
using std::filesystem::path;

const std::map<std::string, Activation> kActivations{
    {"swish", Activation::silu}, {"gelu", Activation::gelu}, {"relu", Activation::relu}};

struct Config {
  TransformerConfig model;
  int start;           // the first token of a target
  BeamOptions search;  // bans what no target has, such as padding, whose score is always 0
};

// What config.json says; what it may say and Marian does not do is an error.
Config config_of(const path& folder) {
  const std::string file = (folder / "config.json").string();
  const ConfigKeys keys(file, parse_python_json(read_text(file), file));
  keys.one_of("model_type", json::array({"marian"}));
  for (const char* on : {"share_encoder_decoder_embeddings", "static_position_embeddings", "tie_word_embeddings"})
    keys.one_of(on, json::array({true}));
  for (const char* off : {"add_bias_logits", "add_final_layer_norm", "normalize_before", "normalize_embedding"})
    keys.one_of(off, json::array({false}));
  const int vocabulary = keys.integer("vocab_size"), width = keys.integer("encoder_ffn_dim");
  const int heads = keys.integer("encoder_attention_heads"), end = keys.integer("eos_token_id");
  for (const auto& [key, size] :
       {std::pair("decoder_vocab_size", vocabulary), {"decoder_attention_heads", heads}, {"decoder_ffn_dim", width}})
    keys.one_of(key, json::array({size}));
  const std::string activation = keys.one_of("activation_function", json::array({"gelu", "swish", "relu"}));
  // About training and generation, and what follows from the others.
  for (const char* key : {"bos_token_id", "classif_dropout", "classifier_dropout", "decoder_layerdrop", "dropout",
                          "encoder_layerdrop", "extra_pos_embeddings", "force_bos_token_to_be_generated", "init_std",
                          "is_encoder_decoder", "num_hidden_layers"})
    keys.find(key);
  const TransformerConfig c{.src_vocabulary = vocabulary,
                            .tgt_vocabulary = vocabulary,
                            .layer = {.d_model = keys.integer("d_model"),
                                      .n_heads = heads,
                                      .d_ff = width,
                                      .dropout = 0,
                                      .activation = kActivations.at(activation)},
                            .enc_layers = keys.integer("encoder_layers"),
                            .dec_layers = keys.integer("decoder_layers"),
                            .max_length = keys.integer("max_position_embeddings"),
                            .scale_embeddings = keys.flag("scale_embedding", false)};
  keys.check_others();
  const ScoreHook hook = generation_config_of(folder, vocabulary).hook({end}, /*prompt=*/1);
  return {c, keys.integer("decoder_start_token_id"), {.eos = end, .max_length = c.max_length - 1, .hook = hook}};
}

void print_translation(const Marian& marian, const Config& config, const std::vector<int>& src) {
  tape().clear();
  const Ragged source = Ragged::of({src});
  const Tensor memory = marian.encode(source);
  KeyValueCache cache = marian.transformer.make_cache(1, config.model.max_length);
  StepModel steps = step_model(marian.transformer, memory, source.offsets, cache);
  steps.scores = [&, scores = steps.scores](const Ragged& unread) { return scores(unread) + marian.bias; };
  const auto found = beam_search(steps, Ragged::of({{config.start}}), config.search);
  std::printf("%.6f:", found[0][0].log_probability);
  for (const int token : found[0][0].tokens) std::printf(" %d", token);
  std::printf("\n");
}

void print_translations(const path& folder, std::istream& lines) {
  const WeightFiles files = find_weights(folder);
  const Config config = config_of(folder);
  Parameters parameters(/*seed=*/0, /*most=*/files.bytes);  // a small file cannot claim a large model
  const Marian marian(parameters.root(), config.model);
  load_weights(files, parameters, marian_weights());
  const Inference inference;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line + ' ');  // so that a last word that is no number fails before the end
    const std::vector<int> source{std::istream_iterator<int>(words), {}};
    check<FormatError>(words.eof(), "expected token ids, got: ", printable(line));
    print_translation(marian, config, source);
  }
}

void write_small_model(const path& folder) {
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "marian", "vocab_size": 50, "d_model": 16,
    "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "encoder_layers": 2, "decoder_layers": 2,
    "max_position_embeddings": 32, "scale_embedding": true, "decoder_start_token_id": 49, "eos_token_id": 0})";
  Parameters parameters(/*seed=*/1);
  const Marian marian(parameters.root(), config_of(folder).model);
  save_weights(folder / "model.safetensors", parameters, marian_weights());
}

int main(int argc, char** argv) {
  try {
    if (argc > 2) {
      std::cerr << "marian: expected FOLDER, or nothing\n";
      return 2;
    }
    if (argc == 2) {
      print_translations(argv[1], std::cin);
      return 0;
    }
    const path folder = std::filesystem::temp_directory_path() / "seppo-small-marian";
    write_small_model(folder);
    std::istringstream sources("7 8 9 0\n7 8 3 9 0\n");
    print_translations(folder, sources);
    std::filesystem::remove_all(folder);
  } catch (const std::exception& e) {
    std::cerr << "marian: " << e.what() << "\n";
    return 1;
  }
}
