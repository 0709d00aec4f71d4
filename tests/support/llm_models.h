// Small untrained models in folders, for tests of `llm`.
#pragma once

#include "llm/folder.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace test {

inline const nlohmann::json kLlama{
    {"model_type", "llama"},       {"hidden_size", 8},    {"intermediate_size", 16}, {"num_hidden_layers", 1},
    {"num_attention_heads", 2},    {"vocab_size", 257},   {"hidden_act", "silu"},    {"max_position_embeddings", 16},
    {"tie_word_embeddings", true}, {"bos_token_id", 256}, {"eos_token_id", {256, 3}}};
inline const nlohmann::json kGpt2{{"model_type", "gpt2"}, {"n_embd", 8},       {"n_layer", 1},
                                  {"n_head", 2},          {"vocab_size", 257}, {"n_positions", 16}};

// A folder with this model, untrained, and the tokenizer of bytes.
inline void write_model(const Folder& folder, const char* name, const nlohmann::json& config = kLlama) {
  fs::create_directory(folder.path / name);
  folder.write(std::string(name) + "/config.json", config.dump());
  const seppo::HfConfig read = seppo::read_hf_config(folder.path / name / "config.json");
  seppo::Parameters parameters(1);
  const seppo::LanguageModel model(parameters.root(), read.model);
  llm::write_folder(folder.path / name, read, parameters, {});
}

// Options of trainings that take no time, and the text for them.
inline const Words kBrief{"--data",        "t.txt", "--window",     "8",   "--epochs", "1",
                          "--epoch-steps", "2",     "--log-format", "none"};
inline const Words kTiny{"--d-model", "8", "--heads", "2", "--layers", "1", "--max-length", "8"};

inline void write_text(const Folder& folder) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "abcde fg\n";
  folder.write("t.txt", text);
}

// The files of a folder, with what they contain.
using Files = std::map<std::string, std::string>;
inline Files files_of(const fs::path& folder) {
  Files files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().lexically_relative(folder).string()] = read(entry.path());
  return files;
}

// A byte-level tokenizer.json, as complete as Hugging Face's, with an additional special token, <s>, with which a text
// may begin.
inline nlohmann::json tokenizer_json(const nlohmann::json& vocabulary, bool adds_bos) {
  using nlohmann::json;
  const json mark{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const auto sequence = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  json all{{"version", "1.0"},
           {"pre_tokenizer", bytes},
           {"decoder", bytes},
           {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
           {"added_tokens",
            {{{"id", vocabulary.size()},
              {"content", "<s>"},
              {"special", true},
              {"single_word", false},
              {"lstrip", false},
              {"rstrip", false},
              {"normalized", false}}}}};
  if (adds_bos)
    all["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {mark, sequence("A", 0)}},
        {"pair", {sequence("A", 0), sequence("B", 1)}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {vocabulary.size()}}, {"tokens", {"<s>"}}}}}}};
  return all;
}

}  // namespace test
