// The pipeline: a text becomes parts, these words, and these tokens.
#include "tokenizer.h"

#include "alphabet.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/utf8.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

std::size_t encode_by(const std::variant<Bpe, Unigram, WordPiece, WordLevel>& model, std::string_view word,
                      std::vector<int>& tokens) {
  return std::visit([&](const auto& m) { return m.encode(word, tokens); }, model);
}

class Encoding {
 public:
  Encoding(const Tokenizer& tokenizer, SpecialText special, std::size_t bytes)
      : t_(tokenizer), takes_special_(special == SpecialText::tokens), matcher_(bytes) {}

  std::vector<int> tokens = {};
  std::size_t left_out = 0;

  void add(std::string_view text) {
    const std::size_t valid = utf8_length(text);
    if (valid > 0) {
      add_valid(text.substr(0, valid), {});
    } else if (!text.empty()) {
      add_plain("", {.is_before_byte = true}, /*is_first=*/true);
    }
    for (std::string_view rest = text.substr(valid); !rest.empty();) {
      left_out += encode_by(t_.model, rest.substr(0, 1), tokens);
      rest.remove_prefix(1);
      const std::size_t length = utf8_length(rest);
      add_valid(rest.substr(0, length), {.is_behind_byte = true});
      rest.remove_prefix(length);
    }
  }

 private:
  void add_valid(std::string_view text, TextPlace place) {
    if (text.empty()) return;
    const bool is_start = !place.is_behind_byte;
    for (const auto& [part, token] : t_.added.cut(text, takes_special_)) {
      const bool is_first = is_start && part.data() == text.data();
      if (token == AddedTokens::Part::kText) {
        add_plain(part, part.data() == text.data() ? place : TextPlace{}, is_first);
      } else {
        tokens.push_back(token);
      }
    }
  }

  // Of a text without added tokens but those that are looked for once it is normalized.
  void add_plain(std::string_view text, TextPlace place, bool is_first) {
    std::string changed;
    if (!t_.normalizers.empty()) {
      is_first = is_first && keeps_beginning(text);
      changed = normalized(t_.normalizers, text, place, matcher_);
      text = changed;
    }
    for (const auto& [part, token] : t_.added_normalized.cut(text, takes_special_)) {
      const bool begins = part.data() == text.data();
      if (token == AddedTokens::Part::kText) {
        add_words(part, begins ? place : TextPlace{}, is_first && begins);
      } else {
        tokens.push_back(token);
      }
    }
  }

  // Do normalizers leave something of the first character?
  bool keeps_beginning(std::string_view text) {
    const std::string_view character = text.substr(0, text.empty() ? 0 : character_length(text));
    return text.empty() || !normalized(t_.normalizers, character, {}, matcher_).empty();
  }

  void add_words(std::string_view text, TextPlace place, bool is_first) {
    Words words(text, place, is_first);
    pre_tokenize(t_.steps, words, matcher_);
    for (const std::string_view word : words.words) {
      if (t_.is_of_alphabet) {
        left_out += encode_by(t_.model, from_alphabet(word).value_or(std::string(word)), tokens);
      } else {
        left_out += encode_by(t_.model, word, tokens);
      }
    }
  }

  const Tokenizer& t_;
  bool takes_special_;
  Matcher matcher_;
};

// The token of a text in a model's vocabulary.
struct Lookup {
  std::string_view text;

  std::optional<int> operator()(const Bpe& bpe) const { return in(bpe.ids); }
  std::optional<int> operator()(const WordLevel& words) const { return in(words.ids); }
  std::optional<int> operator()(const Unigram& unigram) const { return in(unigram.pieces); }
  std::optional<int> operator()(const WordPiece& words) const { return in(words.first); }

 private:
  std::optional<int> in(const TextIds& ids) const {
    const auto found = ids.find(text);
    return found == ids.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<int> in(const TextTrie& trie) const {
    const auto [size, token] = trie.longest(text);
    return size == text.size() && size > 0 ? std::optional(token) : std::nullopt;
  }
};

// Does a word become this token, or is it a result of merges?
bool can_result(const Bpe& bpe, const std::string& piece, int token) {
  const auto found = bpe.ids.find(piece);
  const bool is_piece = found != bpe.ids.end() && found->second == token;
  if (!is_piece || piece.size() == 1 || bpe.takes_words) return true;
  bool is_result = false;
  bpe.merges.each([&](std::uint64_t, Bpe::Merge merge) { is_result = is_result || merge.result == token; });
  return is_result;
}

// Can a text have the token?
bool can_occur(const Tokenizer& t, int token) {
  const auto is_token = [&](int added) { return added == token; };
  if (std::ranges::any_of(t.before, is_token) || std::ranges::any_of(t.behind, is_token)) return true;
  const std::string& piece = t.pieces[static_cast<std::size_t>(token)];
  const Bpe* const bpe = std::get_if<Bpe>(&t.model);
  if (bpe && bpe->is_of_bytes) return !piece.empty() && can_result(*bpe, piece, token);
  return !piece.empty();
}

}  // namespace

std::vector<int> Tokenizer::encode(std::string_view text, SpecialText special, std::size_t* left_out) const {
  Encoding encoding(*this, special, text.size());
  encoding.tokens = before;
  encoding.add(text);
  encoding.tokens.insert(encoding.tokens.end(), behind.begin(), behind.end());
  if (left_out) *left_out += encoding.left_out;
  return std::move(encoding.tokens);
}

std::string Tokenizer::decode(std::span<const int> tokens, std::size_t first) const {
  const auto has_text = [&](int token) {
    check<IndexError>(token >= 0 && token < size(), "decode: token ", token, " of ", size());
    return !pieces[static_cast<std::size_t>(token)].empty();
  };
  const auto earlier = tokens.first(std::min(first, tokens.size())), later = tokens.subspan(earlier.size());
  const auto previous = std::find_if(earlier.rbegin(), earlier.rend(), has_text);
  const auto last = std::find_if(later.rbegin(), later.rend(), has_text);
  const TokenPlace of_all{.is_first = previous == earlier.rend(), .is_last = true};
  const auto text_of = [&](int token, TokenPlace place) {
    const bool is_elsewhere = (place.is_first && decoder.sees_first()) || (place.is_last && decoder.sees_last());
    const auto i = static_cast<std::size_t>(token);
    return is_elsewhere ? decoder.of_token(texts[i], place) : pieces[i];
  };
  std::string text;
  bool is_first = of_all.is_first;
  if (!is_first && last != later.rend()) {  // what the token before did not have at the end, and has now
    const std::string within = text_of(*previous, {}), at_end = text_of(*previous, {.is_last = true});
    if (within.starts_with(at_end)) text = within.substr(at_end.size());
  }
  for (auto token = later.begin(); token != later.end(); ++token) {
    if (!has_text(*token)) continue;
    text += text_of(*token, {.is_first = is_first, .is_last = token + 1 == last.base()});
    is_first = false;
  }
  return decoder.of_text.empty() ? text : decoder.whole(text, of_all);
}

std::optional<int> Tokenizer::id(std::string_view text) const {
  if (const auto mark = marks.find(std::string(text)); mark != marks.end()) return mark->second;
  if (const auto token = added.id(text)) return token;
  if (!added_normalized.empty() && utf8_length(text) == text.size()) {
    Matcher matcher(text.size());
    if (const auto token = added_normalized.id(normalized(normalizers, text, {}, matcher))) return token;
  }
  return std::visit(Lookup{text}, model);
}

void Tokenizer::fit(int model_vocabulary, std::string_view name) {
  constexpr int kMostBeyond = 16;  // each takes a look at all merges
  bool fits = size() - model_vocabulary <= kMostBeyond;
  for (int token = model_vocabulary; fits && token < size(); ++token) fits = !can_occur(*this, token);
  check<FormatError>(fits, name, ": the tokenizer has ", size(), " tokens, the model ", model_vocabulary);
  pieces.resize(static_cast<std::size_t>(model_vocabulary));
  added.keep_below(model_vocabulary);
  added_normalized.keep_below(model_vocabulary);
  std::erase_if(marks, [&](const auto& mark) { return mark.second >= model_vocabulary; });
  for (std::optional<int>* const end : {&bos, &eos})
    if (*end >= model_vocabulary) end->reset();
}

void Tokenizer::add_pattern(std::string_view pattern, std::string_view name) {
  add_step(SplitText{Pattern(pattern, name)}, name);
}

void Tokenizer::add_step(PreTokenizer step, std::string_view name) {
  constexpr std::size_t kMostSteps = 64;
  check<FormatError>(steps.size() < kMostSteps, name, ": there are more than ", kMostSteps, " patterns");
  steps.push_back(std::move(step));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
