// Small tokenizers that Hugging Face's package `tokenizers` wrote, with the ids that it gives for hard texts
// (hugging_face/README.md): the same ids, and the same texts back.
// needs: libraries: seppo::text
#include "support/paths.h"
#include "support/tokenizer_files.h"

#include <seppo/nn/text/pre_tokenizers.h>
#include <seppo/nn/text/tokenizer_json.h>

#include <boost/test/unit_test.hpp>

#include <optional>
#include <span>
#include <vector>

using namespace test;
using nlohmann::json;
using seppo::Tokenizer;

namespace {

const fs::path kCases = fs::path(test::source_folder()) / "tests/examples/hugging_face/tokenizers";

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// What one token after the other adds to the text.
std::string streamed(const Tokenizer& tokenizer, std::span<const int> ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) text += tokenizer.decode(ids.first(i + 1), i);
  return text;
}

void check_same(const std::string& name, const Tokenizer& tokenizer) {
  for (const json& row : json::parse(read(kCases / name / "expected.json"))) {
    const std::string text = row["text"];
    const std::vector<int> ids = tokenizer.encode(text, seppo::SpecialText::tokens);
    BOOST_TEST_CONTEXT(name << ", " << row["text"]) {
      BOOST_TEST(ids == row["ids"].get<std::vector<int>>(), boost::test_tools::per_element());
    }
    const std::string decoded = tokenizer.decode(ids);
    if (is_utf8(decoded)) BOOST_CHECK_EQUAL(decoded, row["decoded"].get<std::string>());
    BOOST_CHECK_EQUAL(streamed(tokenizer, ids), decoded);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_ids_and_texts) {
  int same = 0;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    const std::string name = entry.path().filename();
    std::optional<Tokenizer> tokenizer;
    try {
      tokenizer = seppo::read_tokenizer_json(entry.path() / "tokenizer.json");
    } catch (const seppo::FormatError& e) {
      const bool lacks_tables =
          !seppo::has_unicode_tables() && std::string(e.what()).find("utf8proc") != std::string::npos;
      BOOST_CHECK_MESSAGE(lacks_tables, name << ": " << e.what());
      continue;
    }
    check_same(name, *tokenizer);
    ++same;
  }
  BOOST_CHECK_EQUAL(same, seppo::has_unicode_tables() ? 35 : 27);
}

// Patterns are Oniguruma's, and are matched as the package matches them.
BOOST_AUTO_TEST_CASE(patterns_cut_texts_alike) {
  const json rows = json::parse(read(kCases.parent_path() / "patterns.json"));
  BOOST_CHECK_GT(rows.size(), 250u);
  for (const json& row : rows) {
    const std::string pattern = row[0], text = row[1];
    seppo::Matcher matcher(text.size());
    BOOST_TEST_CONTEXT(row[0] << " of " << row[1]) {
      seppo::Words words(text, {}, true);
      seppo::pre_tokenize(std::vector<seppo::PreTokenizer>{seppo::SplitText{seppo::Pattern(pattern, "x")}}, words,
                          matcher);
      BOOST_TEST(words.words == row[2].get<Strings>(), boost::test_tools::per_element());
    }
  }
}

// What Oniguruma does not compile is refused with its reason.
BOOST_AUTO_TEST_CASE(patterns_that_are_none_are_refused) {
  for (const auto& [pattern, part] : {std::pair("(*WHAT)", "undefined callout name"),
                                      {"[a", "premature end of char-class"},
                                      {"\\p{Klingon}", "invalid character property name {Klingon}"},
                                      {"a)", "unmatched close parenthesis"},
                                      {"(?<=a+)b)", "unmatched close parenthesis"},
                                      {"\xFF", "is not UTF-8"}})
    refused([text = std::string(pattern)] { seppo::Pattern(text, "tokenizer.json"); }, part);
  refused([] { seppo::Pattern(std::string(16'385, 'a'), "x"); }, "has 16385 bytes, more than 16384");
  refused([] { seppo::Pattern(std::string(300, '(') + std::string(300, ')'), "x"); }, "parse depth limit over");
}
