// Decoding with hooks, of models that have learned nothing: whatever they prefer, what they write is a list of digits
// and lists. docs/generation.md walks through it.
#include <seppo/models/decoding/beam.h>
#include <seppo/models/decoding/constraints.h>
#include <seppo/models/decoding/generate.h>

#include <algorithm>
#include <iostream>
#include <span>
#include <string>
#include <vector>

using namespace seppo;

const std::string kAlphabet = "$[],0123456789";  // its characters are the tokens
constexpr int kEnd = 0;
constexpr int kMaxTokens = 24;

std::vector<int> encode(const std::string& text) {
  std::vector<int> tokens;
  for (const char c : text) tokens.push_back(static_cast<int>(kAlphabet.find(c)));
  return tokens;
}

std::string decode(std::span<const int> tokens) {
  std::string text;
  for (const int token : tokens) text += kAlphabet[static_cast<std::size_t>(token)];
  return text;
}

// What may follow the beginning of a list, so that it ends in time.
std::string next_characters(const std::string& text) {
  const auto depth = std::ranges::count(text, '[') - std::ranges::count(text, ']');
  if (depth == 0) return "$";
  const bool is_late = text.size() + static_cast<std::size_t>(depth) + 4 > kMaxTokens;
  if (text.back() == '[' || text.back() == ',') return is_late ? "0123456789" : "[0123456789";
  return is_late ? "]" : ",]";
}

void list_grammar(std::span<real> scores, std::span<const int> text) {
  keep_tokens(scores, encode(next_characters(decode(text))));
}

// Reads a list from the front of `text`; false if there is none.
bool skip_list(std::string_view& text) {
  char before = '[';
  for (text.remove_prefix(1); !text.empty();) {
    if (text[0] == '[') {
      if (!skip_list(text)) return false;
    } else if (text[0] >= '0' && text[0] <= '9') {
      text.remove_prefix(1);
    } else {
      return false;
    }
    if (text.empty()) return false;
    before = text[0];
    text.remove_prefix(1);
    if (before == ']') return true;
    if (before != ',') return false;
  }
  return false;
}

bool is_list(std::string_view text) { return !text.empty() && text[0] == '[' && skip_list(text) && text == "$"; }

int main() {
  Parameters parameters(/*seed=*/1);
  const int vocabulary = static_cast<int>(kAlphabet.size());
  const LanguageModel model(parameters.root() / "language",
                            {.vocabulary = vocabulary, .layer = {.d_model = 16, .n_heads = 2, .d_ff = 32}});
  const Tensor table = parameters.root().parameter("bigrams", {vocabulary, vocabulary}, init_normal(1));
  bool are_lists = true;
  const auto show = [&](const std::string& text, double log_p) {
    are_lists = are_lists && is_list(text);
    std::cout << text << "  log p = " << log_p << "\n";
  };

  Ragged prompts;
  prompts.add(encode("["));
  prompts.add(encode("[7,[1"));
  const GenerateOptions options{.max_tokens = kMaxTokens, .stop = {kEnd}, .hook = list_grammar};
  for (const auto& text : generate(model, prompts, options)) std::cout << decode(text) << "\n";

  // Each with options of its own, and with the log probability of each token.
  std::vector<TextRequest> requests;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    requests.push_back({encode("["), options});
    requests.back().options.seed = seed;
  }
  for (const GeneratedText& text : generate_each(model, requests))
    show("[" + decode(text.tokens), text.log_probability());

  // Several constraints, in a beam search of a language model.
  const auto hook = [](std::span<real> scores, std::span<const int> text) {
    list_grammar(scores, text);
    ban_tokens(scores, encode("0"));
    if (text.size() < 4) ban_repeated_ngrams(scores, text, 2);
  };
  const Inference inference;
  KeyValueCache cache = model.make_cache(prompts.size());
  const auto found = beam_search(step_model(model, cache), prompts,
                                 {.eos = kEnd, .max_length = kMaxTokens, .n_best = 2, .hook = hook});
  for (std::size_t p = 0; p < prompts.size(); ++p)
    for (const Hypothesis& h : found[p]) show(decode(prompts[p]) + decode(h.tokens), h.log_probability);

  // A model of one's own: a table of bigrams, which looks at the last token only.
  const StepModel bigrams{
      .scores = [&](const Ragged& unread) { return last_rows(embedding(table, unread.tokens), unread.offsets); },
      .select = [](std::span<const int>, Offsets) {}};  // there is nothing to reorder
  const auto best = beam_search(bigrams, prompts, {.eos = kEnd, .max_length = kMaxTokens, .hook = list_grammar});
  for (std::size_t p = 0; p < prompts.size(); ++p)
    show(decode(prompts[p]) + decode(best[p][0].tokens), best[p][0].log_probability);
  return are_lists ? 0 : 1;
}
