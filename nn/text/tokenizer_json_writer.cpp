// The form in which Hugging Face's package writes these parts, with all of their keys.
#include "tokenizer_json_writer.h"

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

json bpe_json(const json& vocabulary, const json& merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocabulary},
          {"merges", merges}};
}

json byte_level_json(bool has_words, bool adds_space) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", adds_space}, {"trim_offsets", true}, {"use_regex", has_words}};
}

json sequence_json(const char* parts, const json& all) { return {{"type", "Sequence"}, {parts, all}}; }

json added_token_json(std::size_t id, const std::string& text, bool is_special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", is_special}};
}

json marks_json(const std::optional<NamedToken>& before, const std::optional<NamedToken>& behind) {
  json tokens = json::object();
  const auto add_mark = [&](json& all, const std::optional<NamedToken>& token, int type) {
    if (!token) return;
    all.push_back({{"SpecialToken", {{"id", token->text}, {"type_id", type}}}});
    tokens[token->text] = {{"id", token->text}, {"ids", {token->id}}, {"tokens", {token->text}}};
  };
  const auto add_text = [&](json& all, const char* name, int type) {
    add_mark(all, before, type);
    all.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    add_mark(all, behind, type);
  };
  json single = json::array();
  json pair = json::array();
  add_text(single, "A", 0);
  add_text(pair, "A", 0);
  add_text(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

json whole_json(const json& parts) {
  json all{
      {"version", "1.0"},      {"truncation", nullptr},    {"padding", nullptr},        {"added_tokens", json::array()},
      {"normalizer", nullptr}, {"pre_tokenizer", nullptr}, {"post_processor", nullptr}, {"decoder", nullptr}};
  all.update(parts);
  return all;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
