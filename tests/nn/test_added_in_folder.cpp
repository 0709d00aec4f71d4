// The tokens that files beside a tokenizer add to it: ids that Hugging Face's loaders give for the same files.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include "support/program.h"
#include "support/sentencepiece.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

using seppo::FormatError;
using seppo::SpecialText;
using seppo::Tokenizer;
using test::Folder;
using namespace test::sentencepiece;
using Ids = std::vector<int>;

namespace {

constexpr int kMarkId = 3, a = 4, b = 5, spare = 6, two_marks = 7;  // of the tokenizer.model below

std::string model_bytes(bool begins = true) {
  Model model;
  for (const char* piece : {"\u2581", "a", "b"}) model.add(piece, -1);
  model.add("<spare>", -1);
  model.add("\u2581\u2581", 0, user_defined);
  model.normalizer = number(3, begins ? 1 : 0) + number(4, 0);
  return model.bytes();
}

void check_ids(const Tokenizer& tokenizer, const std::string& text, const Ids& expected,
               SpecialText special = SpecialText::letters) {
  BOOST_TEST_INFO(text);
  BOOST_TEST(tokenizer.encode(text, special) == expected, boost::test_tools::per_element());
}

// In another folder, where it is a tokenizer.json too.
Tokenizer written(const Folder& folder) {
  const Folder copy("copy");
  seppo::write_tokenizer(copy.path, folder.path, 64);
  BOOST_REQUIRE(std::filesystem::exists(copy.path / "tokenizer.json"));
  return seppo::read_tokenizer(copy.path);
}

}  // namespace

// Of chat models of 2023: names alone, of which those are special that others files call so.
BOOST_AUTO_TEST_CASE(names_beside_pieces) {
  const Folder folder("added");
  folder.write("tokenizer.model", model_bytes());
  folder.write("added_tokens.json", R"({"<|im_end|>": 8, "<|im_start|>": 9})");
  folder.write("special_tokens_map.json", R"({"eos_token": "<|im_end|>"})");
  folder.write("tokenizer_config.json", R"({"model_max_length": 8})");  // which does not say it
  for (const Tokenizer& tokenizer : {seppo::read_tokenizer(folder.path), written(folder)}) {
    BOOST_CHECK_EQUAL(tokenizer.eos.value_or(-1), 8);
    check_ids(tokenizer, "a<|im_start|>b", {1, kMarkId, a, 9, kMarkId, b});
    check_ids(tokenizer, "a<|im_end|>", {1, kMarkId, a, 8}, SpecialText::tokens);
    BOOST_CHECK_GT(tokenizer.encode("<|im_end|>").size(), 2);  // letters
    BOOST_CHECK_EQUAL(tokenizer.decode(Ids{kMarkId, a, 9, 8}), "a<|im_start|>");
  }
}

// All that is said of each, and names for pieces that were kept for that.
BOOST_AUTO_TEST_CASE(decoders_beside_pieces) {
  const Folder folder("added");
  folder.write("tokenizer.model", model_bytes());
  folder.write("added_tokens.json", R"({"<other>": 8})");
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {
      "1": {"content": "<s>", "special": true, "normalized": true, "lstrip": false, "rstrip": false},
      "6": {"content": "<go>", "special": true},
      "8": {"content": "<pad>", "special": false, "normalized": true, "rstrip": true}}})");
  for (const Tokenizer& tokenizer : {seppo::read_tokenizer(folder.path), written(folder)}) {
    check_ids(tokenizer, "a<go>b", {1, kMarkId, a, spare, kMarkId, b}, SpecialText::tokens);
    check_ids(tokenizer, "a<pad>  b", {1, kMarkId, a, 8, kMarkId, b});
    check_ids(tokenizer, "a<s>b", {1, kMarkId, a, 1, kMarkId, b}, SpecialText::tokens);
    BOOST_CHECK(!tokenizer.id("<other>") && !tokenizer.id("<spare>"));
  }
}

// Pieces may change names with each other, but none takes the name of one that keeps it.
BOOST_AUTO_TEST_CASE(names_of_pieces) {
  const Folder folder("added");
  folder.write("tokenizer.model", model_bytes());
  folder.write("tokenizer_config.json", R"({"eos_token": "<none>", "added_tokens_decoder": {
      "4": {"content": "b"}, "5": {"content": "a"}, "6": {"content": "</s>"}}})");
  BOOST_CHECK_EQUAL(seppo::read_tokenizer(folder.path).eos.value_or(-1), 2);  // its own
  const nlohmann::json vocabulary = seppo::tokenizer_folder_json(folder.path)["model"]["vocab"];
  BOOST_CHECK(vocabulary["b"] == 4 && vocabulary["a"] == 5 && vocabulary["</s>"] == 2 && vocabulary["<spare>"] == 6);
}

// A space comes before each stretch of text, before the first one, or before none. Two spaces are a token of users.
BOOST_AUTO_TEST_CASE(where_spaces_are_added) {
  const Folder folder("added");
  folder.write("tokenizer.model", model_bytes());
  folder.write("added_tokens.json", R"({"<x>": 8})");
  const auto check = [&](const std::string& config, const Ids& within, const Ids& spaced) {
    folder.write("tokenizer_config.json", config);
    for (const Tokenizer& tokenizer : {seppo::read_tokenizer(folder.path), written(folder)})
      BOOST_TEST_CONTEXT(config) {
        check_ids(tokenizer, "a<x>b", within);
        check_ids(tokenizer, " a", spaced);
      }
  };
  const Ids each{1, kMarkId, a, 8, kMarkId, b}, once{1, kMarkId, a, 8, b};
  check("{}", each, {1, two_marks, a});
  check(R"({"legacy": true, "tokenizer_class": "LlamaTokenizer"})", each, {1, two_marks, a});
  check(R"({"legacy": false})", once, {1, kMarkId, a});
  check(R"({"tokenizer_class": "LlamaTokenizer"})", once, {1, kMarkId, a});
  check(R"({"add_prefix_space": false})", {1, a, 8, b}, {1, kMarkId, a});
}

// Pieces that users defined are found whole where spaces are marks already, and nothing merges with them.
BOOST_AUTO_TEST_CASE(pieces_of_users) {
  for (const bool begins : {true, false}) {
    const Folder folder("added");
    folder.write("tokenizer.model", model_bytes(begins));
    Ids expected{1, kMarkId, a, two_marks, a, two_marks, kMarkId, b};
    if (!begins) expected.erase(expected.begin() + 1);
    for (const Tokenizer& tokenizer : {seppo::read_tokenizer(folder.path), written(folder)}) {
      check_ids(tokenizer, "a  a   b", expected);
      BOOST_CHECK_EQUAL(tokenizer.decode(expected), "a  a   b");
    }
  }
}

// Of so many that no pattern has them, each is an added token.
BOOST_AUTO_TEST_CASE(many_pieces_of_users) {
  for (const int count :
       {16384 / 8, 16384 / 8 + 1}) {  // the first is the last whose pattern, with |, has 16 KiB less 1
    Model model;
    for (const char* piece : {"\u2581", "a", "b"}) model.add(piece, -1);
    for (int i = 0; i < count; ++i) model.add("u" + std::to_string(100'000 + i), 0, user_defined);
    model.normalizer = number(4, 0);
    const Folder folder("added");
    folder.write("tokenizer.model", model.bytes());
    const nlohmann::json all = seppo::tokenizer_folder_json(folder.path);
    BOOST_CHECK_EQUAL(all["added_tokens"].size(), count == 2048 ? 3 : 3 + count);
    const Tokenizer tokenizer = seppo::read_tokenizer(folder.path);
    Ids expected{1, kMarkId, a, 6 + 70, b};
    if (count > 2048) expected.insert(expected.end() - 1, kMarkId);
    check_ids(tokenizer, "au100070b", expected);
  }
}

BOOST_AUTO_TEST_CASE(beside_vocabulary_and_merges) {
  const Folder folder("added");
  folder.write("vocab.json", seppo::byte_vocabulary().dump());
  folder.write("merges.txt", "#version: 0.2\n");
  folder.write("added_tokens.json", R"({"<|im_start|>": 257, "<|im_end|>": 258})");
  folder.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  for (const Tokenizer& tokenizer : {seppo::read_tokenizer(folder.path), written(folder)}) {
    BOOST_CHECK_EQUAL(tokenizer.eos.value_or(-1), 258);
    const Ids bytes = tokenizer.encode("ab");
    check_ids(tokenizer, "a<|im_start|>b", {bytes[0], 257, bytes[1]});
    check_ids(tokenizer, "a<|im_end|>", {bytes[0], 258}, SpecialText::tokens);
    BOOST_CHECK_EQUAL(tokenizer.decode(Ids{bytes[0], 257}), "a<|im_start|>");
  }
}

// As one document, whatever the format is.
BOOST_AUTO_TEST_CASE(documents_of_folders) {
  const Folder folder("added"), other("other");
  folder.write("tokenizer.model", model_bytes());
  folder.write("added_tokens.json", R"({"<x>": 8})");
  other.write("tokenizer.json", seppo::tokenizer_folder_json(folder.path).dump());
  check_ids(seppo::read_tokenizer(other.path), "a<x>", seppo::read_tokenizer(folder.path).encode("a<x>"));
  BOOST_CHECK_EQUAL(seppo::tokenizer_folder_json(other.path), seppo::tokenizer_folder_json(folder.path));
  const Folder old("old");
  old.write("tok512.bin", "");
  BOOST_CHECK_THROW(seppo::tokenizer_folder_json(old.path), FormatError);
}

// A tokenizer.json may call none of its tokens special; what is named as BOS or EOS is.
BOOST_AUTO_TEST_CASE(ends_that_are_added_as_other_tokens) {
  nlohmann::json all = nlohmann::json::parse(R"({"model": {"vocab": {"a": 0, "b": 1}, "merges": []},
      "added_tokens": [{"id": 2, "content": "<|im_end|>", "special": false},
                       {"id": 3, "content": "<go>", "special": false, "normalized": false}]})");
  const Folder folder("added");
  folder.write("tokenizer_config.json", R"({"bos_token": {"content": "<go>"}, "eos_token": "<|im_end|>"})");
  folder.write("tokenizer.json", all.dump());
  const Tokenizer tokenizer = seppo::read_tokenizer(folder.path);
  BOOST_CHECK_EQUAL(tokenizer.eos.value_or(-1), 2);
  BOOST_CHECK_EQUAL(tokenizer.bos.value_or(-1), 3);
  BOOST_CHECK(tokenizer.marks == (std::map<std::string, int>{{"<go>", 3}, {"<|im_end|>", 2}}));
  check_ids(tokenizer, "a<go><|im_end|>b", {0, 1});
  check_ids(tokenizer, "a<go><|im_end|>b", {0, 3, 2, 1}, SpecialText::tokens);
  BOOST_CHECK_EQUAL(tokenizer.decode(Ids{3, 0, 2, 1}), "a b");
  // Looked for in normalized texts, it is found by the text that it is called.
  all["normalizer"] = {{"type", "Prepend"}, {"prepend", "_"}};
  folder.write("tokenizer.json", all.dump());
  BOOST_CHECK_EQUAL(seppo::read_tokenizer(folder.path).eos.value_or(-1), 2);
}

BOOST_AUTO_TEST_CASE(what_is_no_token_is_refused) {
  const Folder folder("added");
  folder.write("tokenizer.model", model_bytes());
  const auto refused = [&](const char* file, const std::string& content, const std::string& why) {
    folder.write(file, content);
    BOOST_CHECK_EXCEPTION(seppo::read_tokenizer(folder.path), FormatError, [&](const FormatError& e) {
      const std::string message = e.what();
      return message.find(file) != message.npos && message.find(why) != message.npos;
    });
    std::filesystem::remove(folder.path / file);
  };
  refused("added_tokens.json", "[]", "is no object");
  refused("added_tokens.json", R"({"<x>": -1})", "'<x>': -1 is no number of a token");
  refused("added_tokens.json", R"({"<x>": "8"})", "'<x>': \"8\" is no number of a token");
  refused("tokenizer_config.json", R"({"added_tokens_decoder": []})", "'added_tokens_decoder' is no object");
  refused("tokenizer_config.json", R"({"added_tokens_decoder": {"8": "<x>"}})", "'8' is no object");
  for (const char* number : {"", "x", "-8", "8 ", "99999999999999999999"})
    refused("tokenizer_config.json", nlohmann::json{{"added_tokens_decoder", {{number, {{"content", "<x>"}}}}}}.dump(),
            "'" + std::string(number) + "' is no number of a token");
}
