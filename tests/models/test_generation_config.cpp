// generation_config.json: what is read, what is refused, and what the hook forbids.
#include <seppo/autograd/core/check.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/hugging_face/generation_config.h>

#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace seppo;

namespace {

constexpr int kVocabulary = 10;

GenerationConfig read(const std::string& text) {
  const test::Folder folder("generation");
  folder.write("generation_config.json", text);
  return read_generation_config(folder.path / "generation_config.json", kVocabulary);
}

// The tokens that may follow a text.
std::vector<int> allowed(const ScoreHook& hook, const std::vector<int>& text) {
  std::vector<real> scores(kVocabulary, 0);
  hook(scores, text);
  std::vector<int> tokens;
  for (int token = 0; token < kVocabulary; ++token)
    if (std::isfinite(scores[static_cast<std::size_t>(token)])) tokens.push_back(token);
  return tokens;
}

std::vector<int> all_but(const std::vector<int>& banned) {
  std::vector<int> tokens;
  for (int token = 0; token < kVocabulary; ++token)
    if (std::ranges::find(banned, token) == banned.end()) tokens.push_back(token);
  return tokens;
}

}  // namespace

BOOST_AUTO_TEST_CASE(options_are_those_of_the_file) {
  const GenerationConfig file = read(R"({"temperature": 0.5, "top_k": 7, "top_p": 0.9, "min_p": 0.1, "max_length": 30,
      "repetition_penalty": 1.2, "max_new_tokens": 20, "eos_token_id": [3, 4], "bos_token_id": 1, "pad_token_id": 99,
      "num_beams": 1, "use_cache": true, "typical_p": 1.0, "_from_model_config": true, "transformers_version": "5"})");
  BOOST_CHECK(file.temperature == 0.5 && file.top_k == 7 && file.top_p == 0.9 && file.min_p == 0.1);
  BOOST_CHECK(file.repetition_penalty == 1.2 && file.max_tokens == 20 && file.max_length == 30);
  BOOST_CHECK(file.stops == (std::vector<int>{3, 4}));
  BOOST_CHECK(file.not_done.empty());
  BOOST_CHECK(!file.hook({3}, 2));
  const GenerationConfig none = read_generation_config("no/such/file", kVocabulary);
  BOOST_CHECK(!none.temperature && !none.stops && none.not_done.empty() && !none.hook({}, 0));
}

// do_sample decides whether tokens are drawn, and then Hugging Face's defaults hold.
BOOST_AUTO_TEST_CASE(do_sample_is_a_temperature) {
  BOOST_CHECK(read(R"({"do_sample": false, "temperature": 0.7})").temperature == 0);
  const GenerationConfig drawn = read(R"({"do_sample": true})");
  BOOST_CHECK(drawn.temperature == 1 && drawn.top_k == 50);
  const GenerationConfig named = read(R"({"do_sample": true, "temperature": 0.6, "top_k": 0})");
  BOOST_CHECK(named.temperature == 0.6 && named.top_k == 0);
  BOOST_CHECK(!read("{}").temperature);
}

BOOST_AUTO_TEST_CASE(what_is_not_done_is_named) {
  const GenerationConfig file = read(R"({"num_beams": 4, "typical_p": 0.9, "forced_eos_token_id": 2, "watermark": {},
      "num_return_sequences": 1, "stop_strings": null, "length_penalty": 1.0, "new_feature": 5})");
  const std::vector<std::string> expected{"forced_eos_token_id", "new_feature", "num_beams", "typical_p"};
  BOOST_TEST(file.not_done == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_refused) {
  const auto refuses = [](const char* text, const char* part) {
    BOOST_CHECK_EXCEPTION(read(text), FormatError, [&](const FormatError& e) {
      const std::string what = e.what();
      return what.find("generation_config.json") != what.npos && what.find(part) != what.npos;
    });
  };
  refuses("[]", "is no object");
  refuses("{", "");
  refuses(R"({"temperature": -1})", "'temperature': -1 is not in 0..100");
  refuses(R"({"temperature": NaN})", "'temperature' is no number");
  refuses(R"({"top_p": 1.5})", "'top_p'");
  refuses(R"({"top_k": -1})", "'top_k'");
  refuses(R"({"top_k": 1e99})", "'top_k'");
  refuses(R"({"do_sample": 1})", "'do_sample'");
  refuses(R"({"eos_token_id": 10})", "'eos_token_id': 10 is no token");
  refuses(R"({"suppress_tokens": [3, 10]})", "'suppress_tokens': 10 is no token");
  refuses(R"({"bad_words_ids": 3})", "'bad_words_ids' is no list");
  refuses(R"({"bad_words_ids": [3]})", "'bad_words_ids' is no list of lists");
  refuses(R"({"bad_words_ids": [[3, 10]]})", "10 is no token");
}

BOOST_AUTO_TEST_CASE(the_hook_forbids_what_the_file_forbids) {
  const GenerationConfig banned = read(R"({"suppress_tokens": [5, 6], "begin_suppress_tokens": [7]})");
  BOOST_TEST(allowed(banned.hook({}, 2), {1, 2}) == all_but({5, 6, 7}), boost::test_tools::per_element());
  BOOST_TEST(allowed(banned.hook({}, 2), {1, 2, 3}) == all_but({5, 6}), boost::test_tools::per_element());

  const GenerationConfig words = read(R"({"bad_words_ids": [[1, 2, 3], [4]]})");
  BOOST_TEST(allowed(words.hook({}, 0), {1, 2}) == all_but({3, 4}), boost::test_tools::per_element());
  BOOST_TEST(allowed(words.hook({}, 0), {2}) == all_but({4}), boost::test_tools::per_element());

  BOOST_TEST(allowed(words.hook({4, 3}, 0), {2}) == all_but({}), boost::test_tools::per_element());  // 4 ends texts

  const GenerationConfig both = read(R"({"min_new_tokens": 1, "min_length": 6})");  // the former alone counts
  BOOST_TEST(allowed(both.hook({8}, 2), {1, 1}) == all_but({8}), boost::test_tools::per_element());
  BOOST_TEST(allowed(both.hook({8}, 2), {1, 1, 1}) == all_but({}), boost::test_tools::per_element());
  const GenerationConfig none = read(R"({"min_new_tokens": 0, "min_length": 6})");
  BOOST_CHECK(!none.hook({8}, 2));
  const GenerationConfig other = read(R"({"min_new_tokens": 5, "min_length": 3})");
  BOOST_TEST(allowed(other.hook({8}, 2), {1, 1, 1, 1}) == all_but({8}), boost::test_tools::per_element());

  const GenerationConfig late = read(R"({"min_new_tokens": 2})");
  for (const auto& [text, stops] :
       {std::pair{std::vector{1, 1}, all_but({8, 9})}, {{1, 1, 1}, all_but({8, 9})}, {{1, 1, 1, 1}, all_but({})}})
    BOOST_TEST(allowed(late.hook({8, 9}, 2), text) == stops, boost::test_tools::per_element());
  const GenerationConfig longer = read(R"({"min_length": 3})");
  BOOST_TEST(allowed(longer.hook({8}, 2), {1, 1}) == all_but({8}), boost::test_tools::per_element());
  BOOST_TEST(allowed(longer.hook({8}, 2), {1, 1, 1}) == all_but({}), boost::test_tools::per_element());

  const GenerationConfig once = read(R"({"no_repeat_ngram_size": 2})");
  BOOST_TEST(allowed(once.hook({}, 0), {1, 2, 1}) == all_but({2}), boost::test_tools::per_element());
}
