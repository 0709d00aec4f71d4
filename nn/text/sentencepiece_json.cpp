// The pipeline that SentencePiece is: spaces become marks, a model makes tokens of all of the text.
#include "sentencepiece_json.h"

#include "tokenizer_json_writer.h"

#include "../../autograd/core/check.h"
#include "../io/base64.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
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
    steps.push_back(replace("Regex", R"(\A +| +\z)", ""));
    steps.push_back(replace("Regex", " {2,}", " "));
  }
  if (pieces.adds_space && !pieces.adds_once) steps.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  steps.push_back(replace("String", " ", kMark));
  return sequence_json("normalizers", steps);
}

json pre_tokenizer_of(const SentencePieces& pieces) {
  if (!pieces.adds_space || !pieces.adds_once) return nullptr;
  return {{"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "first"}, {"split", false}};
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
  // Runs of spaces that are tokens begin with a space only where none is put before them.
  const bool users_have_marks = !pieces.adds_space;
  return {{"normalizer", normalizer_of(pieces)},
          {"pre_tokenizer", pre_tokenizer_of(pieces)},
          {"decoder", decoder_of(pieces)},
          {"model", pieces.is_unigram ? unigram_of(pieces) : bpe_of(pieces, name)},
          {"added_tokens", added_tokens_json(pieces.texts, pieces.types, users_have_marks)}};
}

json added_tokens_json(std::span<const std::string> texts, std::span<const PieceType> types, bool users_have_marks) {
  json all = json::array();
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const bool is_special = types[id] == PieceType::control || types[id] == PieceType::unknown;
    if (!is_special && types[id] != PieceType::user_defined) continue;
    all.push_back(added_token_json(id, texts[id], is_special));
    all.back()["normalized"] = !is_special && users_have_marks;
  }
  return all;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
