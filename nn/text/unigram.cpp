// Viterbi's algorithm, byte by byte.
#include "unigram.h"

#include "../../autograd/core/utf8.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

constexpr double kUnknownPenalty = 10;
constexpr int kUnknown = -2;

// The best path that ends at a byte.
struct Node {
  double score = 0;
  std::size_t begin = 0;  // of its last token
  int token = Bpe::kNone;
};

void improve(Node& node, double score, std::size_t begin, int token) {
  if (node.token != Bpe::kNone && !(score > node.score)) return;
  node = {score, begin, token};
}

std::vector<Node> best_paths(const Unigram& model, std::string_view word) {
  std::vector<Node> nodes(word.size() + 1);
  for (std::size_t at = 0; at < word.size();) {
    const double before = nodes[at].score;
    const std::size_t character = std::max<std::size_t>(1, character_length(word.substr(at)));
    bool is_known = false;
    model.pieces.each_prefix(word.substr(at), [&](std::size_t size, int token) {
      improve(nodes[at + size], before + model.scores[static_cast<std::size_t>(token)], at, token);
      is_known = is_known || size == character;
    });
    if (!is_known) improve(nodes[at + character], before + model.lowest - kUnknownPenalty, at, kUnknown);
    at += character;
  }
  return nodes;
}

// Appends a run of unknown characters.
std::size_t add_unknown(const Unigram& model, std::string_view run, std::vector<int>& tokens) {
  const auto token_of = [&](char byte) { return (*model.fallback)[static_cast<unsigned char>(byte)]; };
  const bool is_bytes =
      model.fallback && std::ranges::none_of(run, [&](char byte) { return token_of(byte) == Bpe::kNone; });
  if (is_bytes) {
    for (const char byte : run) tokens.push_back(token_of(byte));
    return 0;
  }
  if (model.unknown) tokens.push_back(*model.unknown);
  return model.unknown ? 0 : run.size();
}

}  // namespace

std::size_t Unigram::encode(std::string_view word, std::vector<int>& tokens) const {
  const std::vector<Node> nodes = best_paths(*this, word);
  std::vector<std::size_t> ends;  // of the tokens, from the last one to the first
  for (std::size_t end = word.size(); end > 0; end = nodes[end].begin) ends.push_back(end);
  std::size_t left_out = 0, unknown_begin = 0, unknown_end = 0;
  const auto flush = [&] {
    if (unknown_begin < unknown_end)
      left_out += add_unknown(*this, word.substr(unknown_begin, unknown_end - unknown_begin), tokens);
    unknown_begin = unknown_end;
  };
  for (std::size_t i = ends.size(); i-- > 0;) {
    const Node& node = nodes[ends[i]];
    const bool is_unknown = node.token == kUnknown || node.token == unknown;
    if (is_unknown) {
      if (unknown_begin == unknown_end) unknown_begin = node.begin;
      unknown_end = ends[i];
      continue;
    }
    flush();
    tokens.push_back(node.token);
  }
  flush();
  return left_out;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
