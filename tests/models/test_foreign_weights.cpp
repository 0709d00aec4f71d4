// The tables in nn/io/foreign_weights.h match those in docs/foreign-weights.md, and cover whole models.
#include <seppo/nn/io/foreign_weights.h>

#include <seppo/models/bert.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/language_model.h>
#include <seppo/models/t5.h>
#include <seppo/models/transformer.h>

#include "support/program.h"
#include "support/stored.h"
#include "support/stories.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace seppo;

namespace {

using Names = std::vector<std::string>;

struct Row {
  Names theirs;
  bool transposed;
};

// The table of a section, keyed by our names.
std::map<std::string, Row> table_of(const std::string& heading) {
  std::ifstream file(test::source_folder() + "/docs/foreign-weights.md");
  std::map<std::string, Row> rows;
  bool inside = false;
  const std::regex quoted("`([^`]+)`");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line.starts_with("## " + heading);
    if (!inside || !line.starts_with("| `")) continue;
    Names names;
    for (std::sregex_iterator match(line.begin(), line.end(), quoted), end; match != end; ++match)
      names.push_back((*match)[1]);
    rows[names.at(0)] = {{names.begin() + 1, names.end()}, line.find("transposed") != line.npos};
  }
  return rows;
}

std::string numbered(const std::string& name) { return std::regex_replace(name, std::regex("\\bN\\b"), "12"); }

void check_table(const std::string& heading, const WeightOptions& options, std::size_t least) {
  const auto rows = table_of(heading);
  BOOST_CHECK_GE(rows.size(), least);
  for (const auto& [ours, row] : rows) {
    Names theirs;
    for (const std::string& name : row.theirs) theirs.push_back(numbered(name));
    BOOST_CHECK_MESSAGE(options.rename(numbered(ours)) == theirs, ours);
    const bool is_matrix = ours.ends_with(".weight") && ours.find("norm") == ours.npos;
    BOOST_CHECK_MESSAGE((is_matrix && options.transpose && options.transpose(numbered(ours))) == row.transposed, ours);
  }
}

// Every parameter of the model is in the table.
void check_covered(const std::string& heading, const Parameters& parameters) {
  const auto rows = table_of(heading);
  std::set<std::string> seen;
  for (const auto& entry : parameters.entries()) {
    const std::string name = std::regex_replace(entry.name, std::regex("\\b\\d+\\b"), "N");
    BOOST_CHECK_MESSAGE(rows.contains(name), name << " is not in the table of " << heading);
    seen.insert(name);
  }
  BOOST_CHECK_EQUAL(seen.size(), rows.size());
}

LanguageModelConfig llama_config() {
  return {.vocabulary = 512,
          .layer = {.d_model = 64,
                    .n_heads = 8,
                    .d_ff = 172,
                    .norm = Norm::pre,
                    .activation = Activation::swiglu,
                    .bias = false,
                    .n_kv_heads = 4,
                    .norm_kind = NormKind::rms},
          .n_layers = 5,
          .positions = Positions::rotary_halves,
          .max_length = 512,
          .tie_output = false};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_table_renames) {
  const auto rename = renaming(
      "layers.norm -> ln_f, layers -> h, in_proj -> {q,k,v}_proj, ([0-9]+).(up|down) -> mlp.$1.fc_$2\n  first -> 0.x");
  const std::vector<std::pair<std::string, Names>> expected{
      {"layers.norm.weight", {"ln_f.weight"}},
      {"layers.12.norm.weight", {"h.12.norm.weight"}},
      {"my_layers.x", {"my_layers.x"}},
      {"x.layers", {"x.h"}},
      {"layers", {"h"}},
      {"a.in_proj.bias", {"a.q_proj.bias", "a.k_proj.bias", "a.v_proj.bias"}},
      {"a.12.down.w", {"a.mlp.12.fc_down.w"}},
      {"a.b12.down.w", {"a.b12.down.w"}},
      {"a.12.downs.w", {"a.12.downs.w"}},
      {"", {""}}};
  for (const auto& [name, names] : expected)
    BOOST_CHECK_MESSAGE(rename(name) == names, name << " became " << rename(name).front());
  BOOST_CHECK(renaming("a -> 1")("a.0") == Names{"1.0"});
  BOOST_CHECK(renaming("")("a") == Names{"a"});
  for (const char* table : {"a", "a ->", "a b c", "a -> b, c", "-> b"})
    BOOST_CHECK_THROW(renaming(table), ArgumentError);
}

BOOST_AUTO_TEST_CASE(the_tables_are_the_documents) {
  check_table("PyTorch", seppo::torch_weights(), 10);
  check_table("GPT-2", seppo::gpt2_weights(), 17);
  check_table("LLaMA", seppo::llama_weights(8, 4), 10);
  check_table("BERT", seppo::bert_weights(), 17);
  check_table("T5", seppo::t5_weights(false), 21);
  check_table("Marian", seppo::marian_weights(), 15);
  for (const auto& [ours, row] : table_of("GPT-2"))
    BOOST_CHECK_EQUAL(seppo::gpt2_weights("transformer.").rename(ours).at(0),
                      (ours == "output.weight" ? "" : "transformer.") + row.theirs.at(0));
}

BOOST_AUTO_TEST_CASE(every_parameter_has_a_line) {
  Parameters gpt2(1), llama(1), bert(1), t5(1);
  LanguageModelConfig config{.vocabulary = 5, .n_layers = 2, .max_length = 3, .tie_output = false};
  config.layer = {.d_model = 8, .n_heads = 2, .d_ff = 16, .norm = Norm::pre};
  const LanguageModel model(gpt2.root(), config);
  check_covered("GPT-2", gpt2);
  const LanguageModel other(llama.root(), llama_config());
  check_covered("LLaMA", llama);
  config.layer.norm = Norm::post;
  const Bert encoder(bert.root(), {.vocabulary = 5, .layer = config.layer, .n_layers = 2, .max_length = 3});
  check_covered("BERT", bert);
  const T5 other_t5(t5.root(), {.vocabulary = 5, .d_model = 8, .enc_layers = 2, .dec_layers = 2, .tie_output = false});
  check_covered("T5", t5);
}

// lm_head.weight must not be skipped, lest an output layer that is not tied to the embedding go unnoticed.
BOOST_AUTO_TEST_CASE(masks_are_skipped_and_output_layers_are_not) {
  const WeightOptions options = seppo::gpt2_weights("transformer.");
  BOOST_CHECK(options.skip("transformer.h.3.attn.bias") && options.skip("transformer.h.3.attn.masked_bias"));
  BOOST_CHECK(!options.skip("lm_head.weight") && !options.skip("layers.3.self_attn.in_proj.bias"));
  BOOST_CHECK(!options.skip("transformer.h.3.attn.c_attn.bias"));
  BOOST_CHECK(seppo::llama_weights(8, 4).skip("model.layers.0.self_attn.rotary_emb.inv_freq"));
}

// Files of 2018 to 2020 have other names of norms, and tensors that no model uses.
BOOST_AUTO_TEST_CASE(files_of_the_first_models) {
  const test::Folder folder("foreign");
  const std::filesystem::path file = folder.path / "f.safetensors";
  const auto add = [&](const std::string& name) {
    test::Stored stored = test::read_stored(file);
    stored.tensors.push_back({name, "F32", {1}, std::vector<std::byte>(4)});
    test::write_stored(file, stored);
  };
  const LayerConfig layer{.d_model = 8, .n_heads = 2, .d_ff = 16, .dropout = 0};
  Parameters first(1), second(2);
  const Bert one(first.root(), {.vocabulary = 5, .layer = layer, .n_layers = 2, .max_length = 3}),
      two(second.root(), {.vocabulary = 5, .layer = layer, .n_layers = 2, .max_length = 3});
  save_weights(file, first, bert_weights(/*has_gamma=*/true));
  for (const char* name : {"cls.seq_relationship.weight", "cls.seq_relationship.bias", "pooler.dense.bias"}) add(name);
  std::set<std::string> names;
  for (const test::StoredTensor& tensor : test::read_stored(file).tensors) names.insert(tensor.name);
  BOOST_CHECK(names.contains("embeddings.LayerNorm.gamma") && names.contains("encoder.layer.1.output.LayerNorm.beta"));
  load_weights(file, second, bert_weights(/*has_gamma=*/true));
  BOOST_CHECK(std::ranges::equal(first.values(), second.values()));

  const T5Config config{.vocabulary = 5, .d_model = 8, .enc_layers = 1, .dec_layers = 1};
  Parameters third(3), fourth(4);
  const T5 three(third.root(), config), four(fourth.root(), config);
  save_weights(file, third, t5_weights(false));
  add("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight");
  load_weights(file, fourth, t5_weights(false));
  BOOST_CHECK(std::ranges::equal(third.values(), fourth.values()));
}

// A real model trained by others, if available.
BOOST_AUTO_TEST_CASE(a_llama_that_others_trained) {
  const auto folder = test::stories260k();
  if (!folder) return;
  Parameters parameters(1), rounded(2);
  LanguageModelConfig config = llama_config();
  config.tie_output = true;
  const LanguageModel model(parameters.root(), config), rounded_model(rounded.root(), config);
  load_weights(*folder / "model.safetensors", parameters, seppo::llama_weights(8, 4));
  load_weights(*folder / "model-bf16.safetensors", rounded, seppo::llama_weights(8, 4));
  for (std::size_t i = 0; i < parameters.values().size(); ++i) {
    const double exact = static_cast<double>(parameters.values()[i]);
    BOOST_REQUIRE_LE(std::abs(static_cast<double>(rounded.values()[i]) - exact), std::abs(exact) / 256);
  }
  std::ifstream file(*folder / "greedy.json");
  const auto expected = nlohmann::json::parse(file).at("token_ids").get<std::vector<int>>();
  const auto texts = generate(model, Ragged{{expected[0]}, {0, 1}},
                              {.max_tokens = static_cast<int>(expected.size()) - 1, .sampling = {.temperature = 0}});
  BOOST_CHECK_EQUAL_COLLECTIONS(texts[0].begin(), texts[0].end(), expected.begin() + 1, expected.end());
  const auto others =
      generate(rounded_model, Ragged{{expected[0]}, {0, 1}}, {.max_tokens = 5, .sampling = {.temperature = 0}});
  BOOST_CHECK_EQUAL_COLLECTIONS(others[0].begin(), others[0].end(), expected.begin() + 1, expected.begin() + 6);
}
