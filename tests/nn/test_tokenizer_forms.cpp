// tokenizer.json in forms that few files have: the ids that Hugging Face's documents and package give.
// needs: libraries: seppo::text
#include <seppo/nn/text/tokenizer_json.h>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cstddef>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace seppo;

namespace {

std::vector<int> ids_of(const std::string& tokenizer, const std::string& text) {
  return read_tokenizer_json(nlohmann::json::parse(tokenizer), "t").encode(text);
}

}  // namespace

// Of a merge that occurs twice the later order counts, as in Hugging Face's package.
BOOST_AUTO_TEST_CASE(the_last_of_equal_merges_counts) {
  const std::string start =
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4}, "merges": )";
  BOOST_CHECK((ids_of(start + R"(["a b", "b c"]}})", "abc") == std::vector<int>{3, 2}));
  BOOST_CHECK((ids_of(start + R"(["a b", "b c", "a b"]}})", "abc") == std::vector<int>{0, 4}));
}

// Files of 2020 do not say what their model is; the ids are those of Hugging Face's package.
BOOST_AUTO_TEST_CASE(models_without_a_type) {
  BOOST_CHECK((ids_of(R"({"model": {"unk_token": "[UNK]", "continuing_subword_prefix": "##",
                          "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "##b": 2}}})",
                      "ab") == std::vector<int>{1, 2}));
  BOOST_CHECK((ids_of(R"({"model": {"unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "ab": 2}}})", "ab") ==
               std::vector<int>{2}));
  BOOST_CHECK((ids_of(R"({"model": {"unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -1.5]]}})", "ab") ==
               std::vector<int>{1, 2}));
  BOOST_CHECK(
      (ids_of(R"({"model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})", "ab") == std::vector<int>{2}));
}

// A special token may be a letter of texts too, as in the second tokenizer of Stable Diffusion XL.
BOOST_AUTO_TEST_CASE(letters_that_are_special) {
  const std::string start = R"({"added_tokens": [{"id": 0, "content": "!", "special": true}], "model": {"type": )";
  const std::string bpe = start + R"("BPE", "vocab": {"!": 0, "H": 1, "i": 2, "i!": 3}, "merges": ["i !"]}, )" +
                          R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}})";
  BOOST_TEST(ids_of(bpe, "H!Hi!") == (std::vector<int>{1, 0, 1, 3}), boost::test_tools::per_element());
  BOOST_CHECK(ids_of(start + R"("WordLevel", "unk_token": "?", "vocab": {"!": 0, "?": 1}}})", "!") ==
              std::vector<int>{0});
  BOOST_CHECK((ids_of(start + R"("Unigram", "unk_id": 1, "vocab": [["!", -1.0], ["?", 0.0], ["a", -1.0]]}})", "a!") ==
               std::vector<int>{2, 0}));
}

// Added tokens that are looked for in normalized texts are written as these are, in GPT-2's alphabet.
BOOST_AUTO_TEST_CASE(added_tokens_in_the_alphabet) {
  for (const char* content : {" foo", "\u00e9", "foo"}) {
    nlohmann::json all = nlohmann::json::parse(R"({"added_tokens": [{"id": 3, "special": false}],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 2}, "merges": []}, "normalizer": {"type": "ByteLevel"},
        "decoder": {"type": "ByteLevel"}})");
    all["added_tokens"][0]["content"] = content;
    const Tokenizer tokenizer = read_tokenizer_json(all, "t");
    BOOST_TEST(tokenizer.encode("a" + std::string(content) + "b") == (std::vector<int>{0, 3, 2}),
               boost::test_tools::per_element());
    BOOST_CHECK_EQUAL(tokenizer.decode(std::vector<int>{0, 3, 2}), "a" + std::string(content) + "b");
  }
}

// Ids between those of tokens have no text, also where a space comes before each token.
BOOST_AUTO_TEST_CASE(ids_without_a_token) {
  for (const char* decoder : {"null", R"({"type": "WordPiece", "prefix": "##"})"}) {
    const std::string tokenizer = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 2}, "merges": []}, "decoder": )" +
                                  std::string(decoder) + "}";
    const Tokenizer read = read_tokenizer_json(nlohmann::json::parse(tokenizer), "t");
    BOOST_CHECK_EQUAL(read.decode(std::vector<int>{0, 1, 2}), "a b");
    BOOST_CHECK_EQUAL(read.decode(std::vector<int>{1, 2}), "b");
  }
}

// Each way to treat what is split at, as Hugging Face's documents describe them.
BOOST_AUTO_TEST_CASE(behaviours_of_splits) {
  const std::map<std::string, std::vector<int>> expected{{"Removed", {0, 1}},
                                                         {"Isolated", {0, 2, 2, 2, 1}},
                                                         {"Contiguous", {0, 3, 1}},
                                                         {"MergedWithPrevious", {4, 2, 2, 1}},
                                                         {"MergedWithNext", {0, 2, 2, 5}}};
  for (const auto& [behaviour, ids] : expected) BOOST_TEST_CONTEXT(behaviour) {
      const std::string steps = R"({"type": "Punctuation", "behavior": ")" + behaviour + R"("})";
      const std::string split =
          R"({"type": "Split", "pattern": {"String": "!"}, "invert": false, "behavior": ")" + behaviour + R"("})";
      for (const std::string& step : {steps, split})
        BOOST_TEST(ids_of(R"({"pre_tokenizer": )" + step + R"(, "model": {"type": "WordLevel", "unk_token": "?",
                          "vocab": {"a": 0, "b": 1, "!": 2, "!!!": 3, "a!": 4, "!b": 5, "?": 6}}})",
                          "a!!!b") == ids,
                   boost::test_tools::per_element());
    }
}

// Where words are not split at marks, tokens reach over spaces.
BOOST_AUTO_TEST_CASE(words_that_are_not_split) {
  for (const bool splits : {true, false}) {
    const nlohmann::json step{
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "never"}, {"split", splits}};
    const auto ids = ids_of(R"({"pre_tokenizer": )" + step.dump() + R"(, "model": {"type": "BPE",
        "vocab": {"a": 0, "b": 1, "\u2581": 2, "\u2581b": 3, "a\u2581b": 4}, "merges": ["\u2581 b", "a \u2581b"]}})",
                            "a b");
    BOOST_TEST(ids == (splits ? std::vector<int>{0, 3} : std::vector<int>{4}), boost::test_tools::per_element());
  }
}

// The end of a word is marked also where the word is one character.
BOOST_AUTO_TEST_CASE(ends_of_words) {
  const std::string tokenizer = R"({"pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "BPE",
      "end_of_word_suffix": "</w>", "merges": ["a b</w>"],
      "vocab": {"a": 0, "b": 1, "a</w>": 2, "b</w>": 3, "ab</w>": 4}}})";
  BOOST_TEST(ids_of(tokenizer, "a b ba ab aab") == (std::vector<int>{2, 3, 1, 2, 4, 0, 4}),
             boost::test_tools::per_element());
}

// A tokenizer may be used by several threads at once.
BOOST_AUTO_TEST_CASE(threads_encode_at_once) {
  nlohmann::json pieces = nlohmann::json::array();
  for (const char* piece : {"<unk>", "a", "b", "c", "ab", "bc", "abc", "ca"})
    pieces.push_back({piece, -1.0 - static_cast<double>(pieces.size())});
  const auto of = [](const nlohmann::json& model) { return read_tokenizer_json({{"model", model}}, "t"); };
  const std::vector<Tokenizer> tokenizers{
      of({{"type", "Unigram"}, {"unk_id", 0U}, {"vocab", pieces}}),
      read_tokenizer_json(nlohmann::json::parse(R"({"model": {"type": "BPE", "merges": ["a b", "ab c"],
          "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}}})"),
                          "t"),
      read_tokenizer_json(nlohmann::json::parse(R"({"model": {"type": "WordPiece", "unk_token": "?",
          "max_input_chars_per_word": 200, "continuing_subword_prefix": "",
          "vocab": {"?": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "abc": 5}}})"),
                          "t")};
  for (const Tokenizer& tokenizer : tokenizers) {
    std::vector<std::string> texts;
    std::vector<std::vector<int>> alone;
    for (std::size_t i = 0; i < 4; ++i) {
      texts.emplace_back();
      for (std::size_t n = 0; n < 40 + 30 * i; ++n) texts.back() += "abc"[(n * n + i * n / 3) % 3];
      alone.push_back(tokenizer.encode(texts.back()));
    }
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        for (int round = 0; round < 2000; ++round) wrong += tokenizer.encode(texts[i]) != alone[i];
      });
    for (std::thread& thread : threads) thread.join();
    BOOST_CHECK_EQUAL(wrong, 0);
  }
}
