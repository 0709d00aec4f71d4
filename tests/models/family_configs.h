// A small config of each family, written to a folder and read.
#pragma once

#include "support/program.h"

#include <seppo/models/hugging_face/hf_config.h>
#include <seppo/nn/io/text_file.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>

namespace test::families {

using namespace seppo;

inline HfConfig small(Architecture architecture) {
  HfConfig config{.architecture = architecture};
  LanguageModelConfig& m = config.model;
  m.layer.dropout = m.layer.attention_dropout = 0;
  set_architecture(architecture, m);
  m.vocabulary = 13;
  m.layer.d_model = 16;
  m.layer.n_heads = 4;
  m.layer.n_kv_heads = has_kv_heads(architecture) ? 2 : 0;
  m.layer.d_ff = architecture == Architecture::bloom ? 64 : 12;  // which it cannot say
  m.n_layers = 2;
  m.max_length = 16;
  return config;
}

// Calls f with each family.
template <class F>
void for_each_family(const F& f) {
  const auto names = enum_names(Architecture{});
  for (std::size_t i = 0; i < names.size(); ++i) BOOST_TEST_CONTEXT(names[i]) {
      f(static_cast<Architecture>(i));
    }
}

inline nlohmann::json config_of(Architecture architecture) { return to_json(small(architecture)); }

inline HfConfig read(const test::Folder& folder, const nlohmann::json& config) {
  write_text(folder.path / "config.json", config.dump());
  return read_hf_config(folder.path / "config.json");
}

}  // namespace test::families
