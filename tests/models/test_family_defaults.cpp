// What a config.json means where it lacks a key: what transformers takes then, whose configs with all of their keys are
// recorded in files/family_defaults.json (version 5.24, eight layers).
#include "support/paths.h"

#include <seppo/autograd/core/check.h>
#include <seppo/models/hugging_face/hf_config.h>
#include <seppo/nn/io/text_file.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <filesystem>
#include <set>
#include <string>

namespace fs = std::filesystem;
using namespace seppo;
using nlohmann::json;

namespace {

// All that a model is built from, and the tokens that its texts begin and end with.
json meaning_of(const json& config) {
  const fs::path file = fs::temp_directory_path() / ("seppo-defaults-" + std::to_string(::getpid()) + ".json");
  write_text(file, config.dump());
  const HfConfig read = read_hf_config(file);
  fs::remove(file);
  return {{"model", to_json_object(read.model)}, {"keys", to_json(read)}, {"tokens", text_tokens(read)}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(missing_keys_mean_what_transformers_takes) {
  const std::set<std::string> needed{"vocab_size",
                                     "hidden_size",
                                     "n_embd",
                                     "intermediate_size",
                                     "ffn_hidden_size",
                                     "ffn_dim",
                                     "num_hidden_layers",
                                     "num_attention_heads",
                                     "n_layer",
                                     "n_head",
                                     "model_type"};
  const fs::path recorded = fs::path(test::source_folder()) / "tests/models/files/family_defaults.json";
  for (const json& all : json::parse(read_text(recorded))) {
    const json meaning = meaning_of(all);
    for (const auto& [key, value] : all.items()) BOOST_TEST_CONTEXT(all["model_type"] << " without " << key) {
        if (needed.contains(key)) continue;
        json some = all;
        some.erase(key);
        const json other = meaning_of(some);
        BOOST_CHECK_MESSAGE(other == meaning, json::diff(meaning, other));
      }
  }
}

// Sizes are never guessed.
BOOST_AUTO_TEST_CASE(sizes_must_be_said) {
  const json config{{"model_type", "llama"},  {"vocab_size", 9},        {"hidden_size", 8},
                    {"intermediate_size", 8}, {"num_hidden_layers", 1}, {"num_attention_heads", 2}};
  BOOST_CHECK_NO_THROW(meaning_of(config));
  for (const auto& [key, value] : config.items()) {
    json some = config;
    some.erase(key);
    BOOST_CHECK_THROW(meaning_of(some), FormatError);
  }
}
