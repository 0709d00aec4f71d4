// Tokenizers in GGUF files: they are those of Hugging Face's files for the same models.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/gguf_tokenizer.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include "models/gguf_models.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace seppo;
using namespace gguf_models;

BOOST_AUTO_TEST_CASE(a_tokenizer_is_a_tokenizer_json) {
  const test::Folder folder("gguf");
  GgufWriter writer;
  add_tokenizer(writer);
  folder.write("f.gguf", writer.file());
  const GgufFile file(folder.path / "f.gguf");
  const Tokenizer tokenizer = read_gguf_tokenizer(file);
  BOOST_CHECK(tokenizer.size() == kTokens && tokenizer.bos == 258 && tokenizer.eos == 259);
  const std::vector<int> ids{257, 'd', 256, 256};
  BOOST_TEST(tokenizer.encode("abcdabab") == ids, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(tokenizer.decode(ids), "abcdabab");
  write_gguf_tokenizer(folder.path, file, 32);
  const Tokenizer again = read_tokenizer(folder.path);
  BOOST_CHECK(again.encode("abc <end> 12") == tokenizer.encode("abc <end> 12") && again.eos == 259 && again.bos == 258);
  BOOST_CHECK_EQUAL(test::read(folder.path / "chat_template.jinja"), "{{ messages }}");
}

BOOST_AUTO_TEST_CASE(words_with_several_names) {
  const auto encoded = [](const std::string& pre) {
    const test::Folder folder("gguf");
    GgufWriter writer;
    add_tokenizer(writer, pre);
    folder.write("f.gguf", writer.file());
    json all = gguf_tokenizer_json(GgufFile(folder.path / "f.gguf"));
    return std::pair{all["pre_tokenizer"], all["post_processor"]};
  };
  for (const auto& [name, usual] : std::map<std::string, std::string>{{"phi-2", "gpt-2"},
                                                                      {"olmo", "gpt-2"},
                                                                      {"refact", "smollm"},
                                                                      {"command-r", "smollm"},
                                                                      {"llama3", "llama-bpe"},
                                                                      {"falcon3", "llama-bpe"},
                                                                      {"deepseek-r1-qwen", "qwen2"}})
    BOOST_CHECK(encoded(name) == encoded(usual));
  BOOST_CHECK(encoded("smaug-bpe").first == encoded("llama-bpe").first);
  BOOST_CHECK(encoded("smaug-bpe").second != encoded("llama-bpe").second);  // no text begins with a mark
}

// SentencePiece's kind: the pair with the best score merges first, bytes stand for what has no token.
BOOST_AUTO_TEST_CASE(pieces_merge_by_score) {
  GgufWriter writer;
  const std::string blank = "\u2581";
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types{2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    types.push_back(6);
  }
  std::vector<float> scores(tokens.size(), 0);
  const auto add = [&](const std::string& token, float score) {
    tokens.push_back(token);
    types.push_back(1);
    scores.push_back(score);
    return static_cast<int>(tokens.size()) - 1;
  };
  const int space = add(blank, -9), a = add("a", -9), b = add("b", -9), c = add("c", -9);
  const int ab = add("ab", -2), bc = add("bc", -1), space_a = add(blank + "a", -3);
  writer.add("tokenizer.ggml.model", std::string("llama"));
  writer.add("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.scores", scores);
  writer.add("tokenizer.ggml.bos_token_id", 1u);
  writer.add("tokenizer.ggml.eos_token_id", 2u);
  writer.add("tokenizer.ggml.unknown_token_id", 0u);
  writer.add("tokenizer.ggml.add_eos_token", true);
  const test::Folder folder("gguf");
  folder.write("f.gguf", writer.file());
  const GgufFile file(folder.path / "f.gguf");
  const Tokenizer tokenizer = read_gguf_tokenizer(file);
  const auto check = [&](const std::string& text, std::vector<int> ids) {
    ids.insert(ids.begin(), 1);
    ids.push_back(2);
    BOOST_TEST(tokenizer.encode(text) == ids, boost::test_tools::per_element());
    BOOST_CHECK_EQUAL(tokenizer.decode(ids), text);
  };
  check("abc", {space_a, bc});
  check("b a", {space, b, space_a});
  check("ab", {space, ab});
  check("cab", {space, c, ab});
  check("aa", {space_a, a});
  check("z", {space, 3 + 'z'});
  BOOST_CHECK((gguf_special_tokens(file) == std::map<std::string, std::string>{
                                                {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}}));
  BOOST_CHECK(!gguf_chat_template(file));
}

namespace {

GgufWriter of_pieces(const std::vector<std::string>& pieces) {
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", std::string("llama"));
  writer.add("tokenizer.ggml.tokens", pieces);
  writer.add("tokenizer.ggml.scores", std::vector<float>(pieces.size()));
  return writer;
}

void tokenizer_refused(const GgufWriter& writer, const std::string& part) {
  const test::Folder folder("gguf");
  folder.write("f.gguf", writer.file());
  BOOST_CHECK_EXCEPTION(read_gguf_tokenizer(GgufFile(folder.path / "f.gguf")), FormatError, [&](const FormatError& e) {
    return std::string(e.what()).find("f.gguf: tokenizer.ggml." + part) != std::string::npos;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(long_pieces_are_refused) {
  tokenizer_refused(of_pieces({"a", std::string(257, 'a')}), "tokens: token 1 has 257 bytes, more than 256");
  tokenizer_refused(of_pieces({}), "tokens is empty");
  tokenizer_refused(of_pieces({"a", "a\xff"}), "tokens: 'a\\xff' is not UTF-8");
  std::vector<std::string> all;
  for (char letter = 'A'; letter < 'A' + 33; ++letter)
    for (std::size_t length = 1; length <= 256; ++length) all.emplace_back(length, letter);
  tokenizer_refused(of_pieces(all), "tokens: more than 1048576 pairs of tokens are tokens");
}

BOOST_AUTO_TEST_CASE(tokenizers_that_are_not_read_are_named) {
  GgufWriter tokenizer;
  add_tokenizer(tokenizer, "chameleon");
  tokenizer_refused(tokenizer, "pre: chameleon is not supported");
  GgufWriter flag = of_pieces({"a", "b"});
  flag.add("tokenizer.ggml.bos_token_id", 1u);
  flag.add("tokenizer.ggml.add_bos_token", 0u);
  tokenizer_refused(flag, "add_bos_token: 0 is neither true nor false");
}

// Of equal merges the first counts, as in llama.cpp.
BOOST_AUTO_TEST_CASE(the_first_of_equal_merges_counts) {
  const test::Folder folder("gguf");
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", std::string("gpt2"));
  writer.add("tokenizer.ggml.pre", std::string("gpt-2"));
  std::vector<std::string> tokens = alphabet();
  tokens.resize(256);
  tokens.insert(tokens.end(), {"ab", "bc"});
  writer.add("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.merges", std::vector<std::string>{"a b", "b c", "a b"});
  folder.write("f.gguf", writer.file());
  BOOST_CHECK_EQUAL(read_gguf_tokenizer(GgufFile(folder.path / "f.gguf")).encode("abc").front(), 256);
}

BOOST_AUTO_TEST_CASE(the_leftmost_of_equal_pairs_merges_first) {
  GgufWriter writer = of_pieces({"<unk>", "a", "b", "c", "bc", "ab"});
  writer.add("tokenizer.ggml.add_space_prefix", false);
  const test::Folder folder("gguf");
  folder.write("f.gguf", writer.file());
  const Tokenizer tokenizer = read_gguf_tokenizer(GgufFile(folder.path / "f.gguf"));
  BOOST_TEST(tokenizer.encode("abc") == (std::vector<int>{5, 3}), boost::test_tools::per_element());
}

// Runs of marks that users defined are found where no text begins with a mark, as in Gemma's files.
BOOST_AUTO_TEST_CASE(runs_of_marks_are_tokens) {
  const std::string mark = "\u2581";
  GgufWriter writer = of_pieces({"<unk>", mark, "a", mark + mark});
  writer.add("tokenizer.ggml.token_type", std::vector<std::int32_t>{2, 1, 1, 4});
  writer.add("tokenizer.ggml.unknown_token_id", 0u);
  writer.add("tokenizer.ggml.add_space_prefix", false);
  const test::Folder folder("gguf");
  folder.write("f.gguf", writer.file());
  const Tokenizer tokenizer = read_gguf_tokenizer(GgufFile(folder.path / "f.gguf"));
  BOOST_TEST(tokenizer.encode("a  a a") == (std::vector<int>{2, 3, 2, 1, 2}), boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(tokenizer.decode(tokenizer.encode("a  a a")), "a  a a");
}
