// Small tokenizers that Hugging Face's package `tokenizers` wrote, with the ids that it gives for hard texts
// (hugging_face/README.md): the same ids, or a refusal that names what is not supported.
// needs: libraries: seppo::text
#define BOOST_TEST_MODULE tokenizer_hugging_face
#include "support/paths.h"
#include "support/tokenizer_files.h"

#include <seppo/nn/text/pattern.h>
#include <seppo/nn/text/tokenizer_json.h>

#include <boost/test/unit_test.hpp>

#include <map>

using namespace test;
using nlohmann::json;
using seppo::Tokenizer;

namespace {

const fs::path kCases = fs::path(test::source_folder()) / "tests/examples/hugging_face/tokenizers";

const std::map<std::string, std::string> kRefused{{"add_prefix_space", "'add_prefix_space': true"},
                                                  {"llama2", "'normalizer'"},
                                                  {"lowercase", "'normalizer': {\"type\":\"Lowercase\"}"},
                                                  {"mark_normalized", "'normalizer'"},
                                                  {"metaspace", "Metaspace"},
                                                  {"nfc", "'normalizer': {\"type\":\"NFC\"}"},
                                                  {"nfkc", "'normalizer': {\"type\":\"NFKC\"}"},
                                                  {"post_bos_eos", "'post_processor': anything after the text"},
                                                  {"post_eos", "'post_processor': anything after the text"},
                                                  {"post_roberta", "'post_processor': RobertaProcessing"},
                                                  {"post_two_bos", "'post_processor': more than one token"},
                                                  {"punctuation", "Punctuation"},
                                                  {"split_string", "MergedWithPrevious"},
                                                  {"strip_accents", "'normalizer'"},
                                                  {"unigram", "its type is not BPE"},
                                                  {"whitespace", "WhitespaceSplit"},
                                                  {"wordpiece", "its type is not BPE"}};

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Special tokens in a text stay letters here, unlike there.
void check_same(const std::string& name, const Tokenizer& tokenizer) {
  for (const json& row : json::parse(read(kCases / name / "expected.json"))) {
    const std::string text = row["text"];
    const auto occurs = [&](const auto& mark) { return text.find(mark.first) != text.npos; };
    if (std::ranges::any_of(tokenizer.marks, occurs)) continue;
    const std::vector<int> ids = tokenizer.encode(text);
    BOOST_TEST_CONTEXT(name << ", " << row["text"]) {
      BOOST_TEST(ids == row["ids"].get<std::vector<int>>(), boost::test_tools::per_element());
    }
    const std::string decoded = tokenizer.decode(ids);
    if (is_utf8(decoded)) BOOST_CHECK_EQUAL(decoded, row["decoded"].get<std::string>());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_ids_or_a_refusal) {
  int same = 0;
  for (const auto& entry : fs::directory_iterator(kCases)) {
    const std::string name = entry.path().filename();
    const auto refusal = kRefused.find(name);
    const auto reads = [&] { return seppo::read_tokenizer_json(entry.path() / "tokenizer.json"); };
    if (refusal != kRefused.end()) {
      refused(reads, refusal->second);
      continue;
    }
    check_same(name, reads());
    ++same;
  }
  BOOST_CHECK_EQUAL(same, 14);
}

// Patterns are Oniguruma's, and are matched as the package matches them.
BOOST_AUTO_TEST_CASE(patterns_cut_texts_alike) {
  const json rows = json::parse(read(kCases.parent_path() / "patterns.json"));
  BOOST_CHECK_GT(rows.size(), 250u);
  for (const json& row : rows) {
    const std::string pattern = row[0], text = row[1];
    seppo::Matcher matcher(text.size());
    std::vector<std::string_view> pieces;
    BOOST_TEST_CONTEXT(row[0] << " of " << row[1]) {
      seppo::Pattern(pattern, "x").split(text, seppo::Keep::all, matcher, pieces);
      BOOST_TEST(pieces == row[2].get<Strings>(), boost::test_tools::per_element());
    }
  }
}

// What has no counterpart is refused by its name.
BOOST_AUTO_TEST_CASE(patterns_that_mean_something_else_are_refused) {
  for (const auto& [pattern, part] : {std::pair("(a)\\1", "\\1"),
                                      {"(?<n>a)\\k<n>", "\\k"},
                                      {"\\g<0>", "\\g"},
                                      {"\\R", "\\R"},
                                      {"\\X", "\\X"},
                                      {"\\Ka", "\\K"},
                                      {"\\G", "\\G"},
                                      {"(*FAIL)", "(*"},
                                      {"(?x: a)", "(?x"},
                                      {"(?(1)a)", "(?("},
                                      {"(?~a)", "(?~"},
                                      {"\\xE4", "a byte beyond \\x7F"},
                                      {"\\pL", "\\p without braces"},
                                      {"[[:punct:]]", "[:punct:]"},
                                      {"[[:graph:]]", "[:graph:]"},
                                      {"[a-\\d]", "a range that ends with a set"},
                                      {"[a&&]", "an empty class"},
                                      {"[a", "the end"},
                                      {"(?i:gro\xC3\x9F)", "a letter beyond ASCII where case is ignored"},
                                      {"(?i:miss)", "a pair like 'ss'"},
                                      {"(?i)[\\p{Lu}]", "a set of one case"},
                                      {"\\p{Klingon}", "unknown property"},
                                      {"\\p{In\xC3\xA9}", "\\p{In"},
                                      {"(?<=a+)b", "lookbehind"},
                                      {"a)", "unmatched closing parenthesis"}})
    refused([text = std::string(pattern)] { seppo::Pattern(text, "tokenizer.json"); }, part);
  refused([] { seppo::Pattern(std::string(16'385, 'a'), "x"); }, "has 16385 bytes, more than 16384");
  refused([] { seppo::Pattern(std::string(300, '(') + std::string(300, ')'), "x"); }, "a nesting so deep");
}
