// Sentence vectors (Reimers and Gurevych 2019) of a BERT from Hugging Face, such as all-MiniLM-L6-v2: texts of similar
// meaning have vectors of similar direction. Each line of standard input is a text of token ids; prints its vector.
//
//   sentence_vectors all-MiniLM-L6-v2 < ids      a folder with config.json and model.safetensors
//
// Without arguments it writes a small model there, and reads that.
#include <seppo/autograd/core/printable.h>
#include <seppo/models/bert.h>
#include <seppo/models/hugging_face/config_keys.h>
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

// What config.json says; what it may say and Bert does not do is an error.
BertConfig config_of(const path& folder) {
  const std::string file = (folder / "config.json").string();
  const ConfigKeys keys(file, parse_python_json(read_text(file), file));
  keys.one_of("model_type", json::array({"bert"}));
  keys.one_of("hidden_act", json::array({"gelu"}));
  keys.one_of("position_embedding_type", json::array({"absolute"}));
  // Of training, and of heads that a BERT here lacks.
  for (const char* key :
       {"attention_probs_dropout_prob", "classifier_dropout", "tie_word_embeddings", "directionality", "pooler_fc_size",
        "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"})
    keys.find(key);
  BertConfig c{.vocabulary = keys.integer("vocab_size"),
               .n_layers = keys.integer("num_hidden_layers"),
               .max_length = keys.integer("max_position_embeddings"),
               .segments = keys.integer("type_vocab_size")};
  c.layer.d_model = keys.integer("hidden_size");
  c.layer.n_heads = keys.integer("num_attention_heads");
  c.layer.d_ff = keys.integer("intermediate_size");
  c.layer.eps = keys.number("layer_norm_eps", 1e-12);
  keys.check_others();
  return c;
}

// Vectors here are means over tokens; the first token's vector, which other models mean, is an error.
void check_pooling(const path& folder) {
  const path file = folder / "1_Pooling/config.json";
  if (!std::filesystem::exists(file)) return;
  const json config = parse_python_json(read_text(file), file.string());
  const bool has_means = config.is_object() && config.value("pooling_mode_mean_tokens", json()) == true;
  check<FormatError>(has_means, file.string(), ": 'pooling_mode_mean_tokens' is not true, which is not supported");
}

Ragged read_texts(std::istream& lines) {
  Ragged texts;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line + ' ');  // so that a last word that is no number fails before the end
    std::vector<int> ids;
    for (int id; words >> id;) ids.push_back(id);
    check<FormatError>(words.eof(), "expected token ids, got: ", printable(line));
    texts.add(ids);
  }
  return texts;
}

void print_vectors(const path& folder, const Ragged& texts) {
  check_pooling(folder);
  const WeightFiles files = find_weights(folder);
  Parameters parameters(/*seed=*/0, /*most=*/files.bytes);                    // a small file cannot claim a large model
  const bool has_head = files.has("bert.embeddings.word_embeddings.weight");  // as BertForMaskedLM
  const Bert bert(has_head ? parameters.root() / "bert" : parameters.root(), config_of(folder));
  const std::string gamma = std::string(has_head ? "bert." : "") + "embeddings.LayerNorm.gamma";
  WeightOptions names = bert_weights(/*has_gamma=*/files.has(gamma));
  names.skip = [is_other = names.skip](const std::string& name) { return name.starts_with("cls.") || is_other(name); };
  load_weights(files, parameters, names);

  const Inference inference;
  const Tensor means = mean_of_texts(bert(texts), texts.offsets);  // [texts, d_model]
  const Tensor vectors = means / norm(means, -1, /*keepdim=*/true);
  for (int text = 0; text < vectors.size(0); ++text)
    for (int i = 0; i < vectors.size(1); ++i)
      std::printf("%.7f%c", vectors.at(text, i), i + 1 < vectors.size(1) ? ' ' : '\n');
}

void write_small_model(const path& folder) {
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "config.json") << R"({"model_type": "bert", "vocab_size": 50, "num_hidden_layers": 2,
    "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_size": 8, "num_attention_heads": 2,
    "intermediate_size": 32})";
  Parameters parameters(/*seed=*/1);
  const Bert bert(parameters.root(), config_of(folder));
  save_weights(folder / "model.safetensors", parameters, bert_weights());
}

int main(int argc, char** argv) {
  try {
    if (argc > 2) {
      std::cerr << "sentence_vectors: expected FOLDER, or nothing\n";
      return 2;
    }
    if (argc == 2) {
      print_vectors(argv[1], read_texts(std::cin));
      return 0;
    }
    const path folder = std::filesystem::temp_directory_path() / "seppo-small-bert";
    write_small_model(folder);
    print_vectors(folder, Ragged::of({{2, 7, 1, 8, 3}, {2, 7, 1, 9, 3}, {2, 44, 3}}));
    std::filesystem::remove_all(folder);
  } catch (const std::exception& e) {
    std::cerr << "sentence_vectors: " << e.what() << "\n";
    return 1;
  }
}
