// T5 (Raffel et al. 2020) from Hugging Face, such as t5-small or flan-t5-small. Each line of standard input is a source
// of token ids; prints the target that the model finds most probable token by token, after its log-probability.
//
//   t5 flan-t5-small < ids      a folder with config.json and model.safetensors
//
// Without arguments it writes a small model, and reads that.
#include <seppo/autograd/core/printable.h>
#include <seppo/models/hugging_face/config_keys.h>
#include <seppo/models/t5.h>
#include <seppo/nn/io/foreign_weights.h>
#include <seppo/nn/io/sharded_weights.h>
#include <seppo/nn/io/text_file.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using namespace seppo;
using nlohmann::json;
using std::filesystem::path;

constexpr int kStart = 0, kEnd = 1, kLongest = 100;  // the first and last token of a target, and its most tokens

// What config.json says; what it may say and T5 does not do is an error. A file may have an output layer though it says
// that it is tied: a copy, unless it also says that outputs are not scaled.
T5Config config_of(const path& folder, bool has_output) {
  const std::string file = (folder / "config.json").string();
  const ConfigKeys keys(file, parse_python_json(read_text(file), file));
  keys.one_of("model_type", json::array({"t5"}));
  keys.one_of("decoder_start_token_id", json::array({kStart}));
  keys.one_of("eos_token_id", json::array({kEnd}));
  const json form = keys.one_of("feed_forward_proj", json::array({"relu", "gated-gelu"}));
  // About training, and what follows from the others.
  for (const char* key : {"classifier_dropout", "dense_act_fn", "dropout_rate", "initializer_factor",
                          "is_encoder_decoder", "is_gated_act", "n_positions"})
    keys.find(key);
  const bool says_tied = keys.flag("tie_word_embeddings", true);
  const bool is_scaled = keys.flag("scale_decoder_outputs", says_tied);  // by 1 / sqrt(d_model)
  const bool is_tied = says_tied && (is_scaled || !has_output);
  check<FormatError>(is_tied || !is_scaled, file, ": 'scale_decoder_outputs' with an output layer of its own is not ",
                     "supported");
  const T5Config c{.vocabulary = keys.integer("vocab_size"),
                   .d_model = keys.integer("d_model"),
                   .n_heads = keys.integer("num_heads"),
                   .head_width = keys.integer("d_kv"),
                   .d_ff = keys.integer("d_ff"),
                   .enc_layers = keys.integer("num_layers"),
                   .dec_layers = keys.integer("num_decoder_layers", keys.integer("num_layers")),
                   .buckets = keys.integer("relative_attention_num_buckets", 32),
                   .max_distance = keys.integer("relative_attention_max_distance", 128),
                   .is_gated = form == "gated-gelu",
                   .tie_output = is_tied,
                   .scale_tied = is_scaled,
                   .eps = keys.number("layer_norm_epsilon", 1e-6)};
  keys.check_others();
  return c;
}

void print_target(const T5& t5, const std::vector<int>& src) {
  tape().clear();
  const Ragged source = Ragged::of({src});
  const Tensor memory = t5.encode(source);
  std::vector<int> target{kStart};
  double score = 0;
  while (target.back() != kEnd && target.size() <= kLongest) {
    const Tensor log_p = log_softmax(t5.decode(Ragged::of({target}), memory, source.offsets));
    const int last = log_p.size(0) - 1;
    target.push_back(argmax(slice(log_p, 0, last, last + 1))[0]);
    score += log_p.at(last, target.back());
  }
  std::printf("%.6f:", score);
  for (std::size_t i = 1; i < target.size(); ++i) std::printf(" %d", target[i]);
  std::printf("\n");
}

void print_targets(const path& folder, std::istream& lines) {
  const WeightFiles files = find_weights(folder);
  const T5Config config = config_of(folder, files.has("lm_head.weight"));
  Parameters parameters(/*seed=*/0, /*most=*/files.bytes);  // a small file cannot claim a large model
  const T5 t5(parameters.root(), config);
  WeightOptions options = t5_weights(config.is_gated);
  options.skip = [is_copy = options.skip, tied = config.tie_output](const std::string& name) {
    return is_copy(name) || (tied && name == "lm_head.weight");
  };
  load_weights(files, parameters, options);

  const Inference inference;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line + ' ');  // so that a last word that is no number fails before the end
    std::vector<int> source;
    for (int id; words >> id;) source.push_back(id);
    check<FormatError>(words.eof(), "expected token ids, got: ", printable(line));
    print_target(t5, source);
  }
}

void write_small_model(const path& folder) {
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "t5", "vocab_size": 50, "d_model": 16, "num_heads": 2,
    "d_kv": 4, "d_ff": 32, "num_layers": 2, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false})";
  Parameters parameters(/*seed=*/1);
  const T5 t5(parameters.root(), config_of(folder, /*has_output=*/true));
  save_weights(folder / "model.safetensors", parameters, t5_weights(t5.config.is_gated));
}

int main(int argc, char** argv) {
  try {
    if (argc > 2) {
      std::cerr << "t5: expected FOLDER, or nothing\n";
      return 2;
    }
    if (argc == 2) {
      print_targets(argv[1], std::cin);
      return 0;
    }
    const path folder = std::filesystem::temp_directory_path() / "seppo-small-t5";
    write_small_model(folder);
    std::istringstream sources("7 8 9 1\n7 8 3 9 1\n");
    print_targets(folder, sources);
    std::filesystem::remove_all(folder);
  } catch (const std::exception& e) {
    std::cerr << "t5: " << e.what() << "\n";
    return 1;
  }
}
