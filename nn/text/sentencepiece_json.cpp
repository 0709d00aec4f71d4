// The pipeline that SentencePiece is: spaces become marks, a model makes tokens of all of the text.
#include "sentencepiece_json.h"

#include "pattern.h"
#include "tokenizer_json_writer.h"

#include "../../autograd/core/check.h"
#include "../io/base64.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

constexpr const char* kMark = "\u2581";  // stands for a space

json replace(const char* kind, const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

json normalizer_of(const SentencePieces& pieces) {
  json steps = json::array();
  if (!pieces.charsmap.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(pieces.charsmap)}});
  if (pieces.trims_spaces) {
    steps.push_back(replace("Regex", " {2,}", " "));  // first, or each space of a long run looks for the end
    steps.push_back(replace("Regex", R"(\A | \z)", ""));
  }
  if (pieces.adds_space && !pieces.adds_once) steps.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  steps.push_back(replace("String", " ", kMark));
  return sequence_json("normalizers", steps);
}

// Matches the tokens of users, which SentencePiece never merges with others; empty if there are none, or too many for a
// pattern.
std::string pattern_of_users(const SentencePieces& pieces) {
  constexpr std::size_t kMostPattern = 16 << 10;  // pattern.h
  std::vector<std::string> all;
  for (std::size_t id = 0; id < pieces.texts.size(); ++id)
    if (pieces.types[id] == PieceType::user_defined) all.push_back(quoted_pattern(pieces.texts[id]));
  std::ranges::stable_sort(all, std::ranges::greater(), &std::string::size);  // the longest matches
  std::string any;
  for (const std::string& token : all) any += (any.empty() ? "" : "|") + token;
  return any.size() > kMostPattern ? "" : any;
}

json pre_tokenizer_of(const SentencePieces& pieces, const std::string& users) {
  json steps = json::array();
  if (pieces.adds_space && pieces.adds_once)
    steps.push_back({{"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "first"}, {"split", false}});
  if (!users.empty())
    steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", users}}}, {"behavior", "Isolated"}, {"invert", false}});
  if (steps.empty()) return nullptr;
  return sequence_json("pretokenizers", steps);
}

json decoder_of(const SentencePieces& pieces) {
  json steps{replace("String", kMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (pieces.adds_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
  return sequence_json("decoders", steps);
}

// The two tokens of which a text may consist.
std::vector<std::pair<std::size_t, std::size_t>> splits(const SentencePieces& pieces, const std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t at = 1; at < text.size(); ++at) {
    const auto left = pieces.ids.find(text.substr(0, at));
    if (left == pieces.ids.end()) continue;
    const auto right = pieces.ids.find(text.substr(at));
    if (right != pieces.ids.end()) found.emplace_back(left->second, right->second);
  }
  return found;
}

// Each two tokens whose concatenation is a token, the best score first; of equal ones, in the order of their results.
json merges_by_score(const SentencePieces& pieces, const std::string& name) {
  constexpr std::size_t kMostBytes = 256;
  constexpr std::size_t kMost = std::size_t{1} << 20;                       // of tokens that merge
  using Merge = std::tuple<double, std::size_t, std::size_t, std::size_t>;  // -score, result, left, right
  std::vector<Merge> merges;
  for (std::size_t id = 0; id < pieces.texts.size(); ++id) {
    if (pieces.types[id] != PieceType::normal) continue;
    const std::string& text = pieces.texts[id];
    check<FormatError>(text.size() <= kMostBytes, name, ": token ", id, " has ", text.size(), " bytes, more than ",
                       kMostBytes);
    for (const auto& [left, right] : splits(pieces, text)) merges.emplace_back(-pieces.scores[id], id, left, right);
    check<FormatError>(merges.size() <= kMost, name, ": more than ", kMost, " pairs of tokens are tokens");
  }
  std::ranges::sort(merges);
  json all = json::array();
  for (const auto& [order, id, left, right] : merges) all.push_back({pieces.texts[left], pieces.texts[right]});
  return all;
}

json bpe_of(const SentencePieces& pieces, const std::string& name) {
  json model = bpe_json(pieces.ids, merges_by_score(pieces, name));
  if (pieces.unknown) model["unk_token"] = pieces.texts[*pieces.unknown];
  model["fuse_unk"] = true;
  model["byte_fallback"] = pieces.has_bytes;
  return model;
}

json unigram_of(const SentencePieces& pieces) {
  json vocabulary = json::array();
  for (std::size_t id = 0; id < pieces.texts.size(); ++id) vocabulary.push_back({pieces.texts[id], pieces.scores[id]});
  json unknown;
  if (pieces.unknown) unknown = *pieces.unknown;
  return {{"type", "Unigram"}, {"unk_id", unknown}, {"vocab", vocabulary}, {"byte_fallback", pieces.has_bytes}};
}

}  // namespace

json sentencepiece_json(const SentencePieces& pieces, const std::string& name) {
  const std::string users = pieces.adds_users ? "" : pattern_of_users(pieces);
  json model = pieces.is_unigram ? unigram_of(pieces) : bpe_of(pieces, name);
  if (!users.empty() && !pieces.is_unigram) model["ignore_merges"] = true;
  json added = added_tokens_json(pieces.texts, pieces.types, users.empty());
  for (json& token : added)  // runs of marks are those of a normalized text, which begins with none of its own
    if (token["special"] == false) token["normalized"] = !pieces.adds_space;
  return {{"normalizer", normalizer_of(pieces)},
          {"pre_tokenizer", pre_tokenizer_of(pieces, users)},
          {"decoder", decoder_of(pieces)},
          {"model", model},
          {"added_tokens", added}};
}

json added_tokens_json(std::span<const std::string> texts, std::span<const PieceType> types, bool adds_users) {
  json all = json::array();
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const bool is_special = types[id] == PieceType::control || types[id] == PieceType::unknown;
    const bool is_added = is_special || (adds_users && types[id] == PieceType::user_defined);
    if (is_added) all.push_back(added_token_json(id, texts[id], is_special));
  }
  return all;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
