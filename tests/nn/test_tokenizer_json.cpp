// tokenizer.json: the same tokens as from vocab.json and merges.txt, pre-tokenizer steps, and what is refused.
// needs: libraries: seppo::text
#include "support/tokenizer_files.h"

#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/tokenizer_folder.h>
#include <seppo/nn/text/tokenizer_json.h>

#include <boost/test/unit_test.hpp>

using namespace seppo;
using namespace test;

BOOST_AUTO_TEST_CASE(the_same_tokens_as_of_two_files) {
  Random random;
  for (int round = 0; round < 10; ++round) {
    const BpeFiles bpe = random_bpe(random, 40);
    const Folder folder("tokenizer");
    bpe.write(folder);
    folder.write("tokenizer.json", bpe.document().dump());
    nlohmann::json pairs = bpe.document();  // as newer versions write it
    for (auto& merge : pairs["model"]["merges"]) {
      const std::string line = merge;
      merge = {line.substr(0, line.find(' ')), line.substr(line.find(' ') + 1)};
    }
    pairs["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "<|end of text|>"}}}}, {{"Sequence", {{"id", "A"}}}}}}};
    if (round % 2 == 1) {  // as a sequence, as in Llama 3; a second template is ignored
      const nlohmann::json own = pairs["post_processor"];
      nlohmann::json bare = own;
      bare["single"].erase(0);
      const nlohmann::json inner{{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, own}}};
      pairs["post_processor"] = {{"type", "Sequence"}, {"processors", {inner, bare}}};
    }
    folder.write("pairs.json", pairs.dump());
    const Tokenizer one = read_byte_level_bpe(folder.path / "vocab.json", folder.path / "merges.txt"),
                    two = read_tokenizer_json(folder.path / "tokenizer.json"),
                    three = read_tokenizer_json(folder.path / "pairs.json");
    BOOST_CHECK_EQUAL(two.size(), one.size() + 1);
    for (int n = 0; n < 100; ++n) {
      const std::string text = random_text(random, 30);
      std::vector<int> tokens = one.encode(text);
      BOOST_REQUIRE(two.encode(text) == tokens);
      tokens.insert(tokens.begin(), one.size());
      BOOST_REQUIRE(three.encode(text) == tokens);
    }
  }
}

// Two files, of whatever line ends, are written as one tokenizer.json.
BOOST_AUTO_TEST_CASE(two_files_are_written_as_one) {
  Random random;
  const BpeFiles bpe = random_bpe(random, 40);
  const Folder unix("tokenizer"), windows("tokenizer-windows");
  bpe.write(unix);
  bpe.write(windows);
  std::string merges;
  for (const char c : read(unix.path / "merges.txt")) merges += c == '\n' ? std::string("\r\n") : std::string(1, c);
  windows.write("merges.txt", merges);
  const auto written = [](const Folder& from) {
    const Folder to("tokenizer-written");
    write_tokenizer(to.path, from.path, 64);
    return nlohmann::json::parse(read(to.path / "tokenizer.json"))["model"];
  };
  const nlohmann::json model = written(unix);
  BOOST_CHECK_EQUAL(model["merges"].size(), bpe.merges.size());
  BOOST_CHECK_EQUAL(written(windows), model);
}

BOOST_AUTO_TEST_CASE(steps_of_a_tokenizer_json) {
  Random random;
  BpeFiles bpe = random_bpe(random, 60);
  bpe.merges.emplace_back("1", "2");  // so that single digits give other tokens
  bpe.tokens.emplace_back("12");
  const Folder folder("tokenizer");
  const auto with = [&](const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json document = bpe.document();
    change(document);
    folder.write("tokenizer.json", document.dump());
    return read_tokenizer_json(folder.path / "tokenizer.json");
  };
  const auto step = [&](const std::vector<nlohmann::json>& steps) {
    return with([&](nlohmann::json& d) { d["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}}; });
  };
  const nlohmann::json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto split = [](const char* regex) {
    return nlohmann::json{
        {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  const std::string text = "see a  sea's 1234 bees\n\n  ébe 日x";
  BOOST_TEST(step({bytes}).encode(text) == bpe.encode({text}), boost::test_tools::per_element());
  BOOST_TEST(
      step({split(R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"), bytes})
              .encode(text) ==
          bpe.encode({"see", " a", " ", " sea", "'s", " ", "123", "4", " bees", "\n\n", " ", " ébe", " 日x"}),
      boost::test_tools::per_element());
  // Text between matches is a word as well, and later patterns split it further.
  BOOST_TEST(step({split("[0-9]"), split("e"), bytes}).encode("abe12eb") == bpe.encode({"ab", "e", "1", "2", "e", "b"}),
             boost::test_tools::per_element());
  // Capture groups in a pattern make no difference.
  BOOST_TEST(step({split("(a)?(b)|([0-9]+)"), bytes}).encode("abe12eb") == bpe.encode({"ab", "e", "12", "e", "b"}),
             boost::test_tools::per_element());
  for (const bool single : {true, false})
    BOOST_TEST(step({{{"type", "Digits"}, {"individual_digits", single}}, bytes}).encode("ab12é") ==
                   bpe.encode(single ? Strings{"ab", "1", "2", "é"} : Strings{"ab", "12", "é"}),
               boost::test_tools::per_element());

  // A word in the vocabulary is one token whatever the merges; text that spells a special token is not that token.
  const std::string word = "see bees";
  const Tokenizer whole = with([&](nlohmann::json& d) {
    d["model"]["vocab"][shown(word)] = bpe.tokens.size() + 1;
    d["model"]["ignore_merges"] = true;
    d["pre_tokenizer"]["use_regex"] = false;
  });
  BOOST_TEST(whole.encode(word) == (std::vector<int>{static_cast<int>(bpe.tokens.size()) + 1}),
             boost::test_tools::per_element());
  const int mark = static_cast<int>(bpe.tokens.size());
  BOOST_TEST(whole.decode(std::vector<int>{mark}) == "");
  BOOST_TEST(whole.decode(whole.encode("<|end of text|>")) == "<|end of text|>");
  BOOST_CHECK(std::ranges::count(whole.encode("<|end of text|>"), mark) == 0);
  BOOST_TEST(whole.encode("<|end of text|>", SpecialText::tokens) == std::vector<int>{mark},
             boost::test_tools::per_element());
  BOOST_CHECK_THROW(whole.decode(std::vector<int>{whole.size()}), IndexError);
  BOOST_CHECK_THROW(whole.decode(std::vector<int>{-1}), IndexError);
}

// Some vocabularies have tokens that are not in GPT-2's alphabet: no word becomes one, and it decodes to itself.
BOOST_AUTO_TEST_CASE(tokens_outside_the_alphabet) {
  Random random;
  const BpeFiles bpe = random_bpe(random, 20);
  const Folder folder("tokenizer");
  nlohmann::json document = bpe.document(), vocabulary = bpe.vocabulary();
  document["model"]["vocab"]["日"] = 277;
  vocabulary["日"] = vocabulary.size();
  folder.write("tokenizer.json", document.dump());
  folder.write("vocab.json", vocabulary.dump());
  folder.write("merges.txt", "");
  const std::vector<Tokenizer> both{read_tokenizer_json(folder.path / "tokenizer.json"),
                                    read_byte_level_bpe(folder.path / "vocab.json", folder.path / "merges.txt")};
  for (const Tokenizer& tokenizer : both) {
    const int token = tokenizer.size() - 1;
    BOOST_TEST(tokenizer.decode(std::vector{token}) == "日");
    const std::vector<int> ids = tokenizer.encode("日");
    BOOST_TEST(ids.size() == 3u);
    BOOST_TEST(std::ranges::count(ids, token) == 0);
    BOOST_TEST(tokenizer.decode(ids) == "日");
  }
}

// Cut to the size of a model, a tokenizer is the one whose file lacks the tokens beyond, even where texts were cut at
// those alone: they are looked for in texts or in normalized ones, and begin as others do.
BOOST_AUTO_TEST_CASE(a_fitted_tokenizer_has_no_tokens_beyond) {
  Random random;
  const BpeFiles bpe = random_bpe(random, 20);
  const int size = static_cast<int>(bpe.tokens.size()) + 2;
  const Folder folder("tokenizer");
  const Strings names{"<a>", "<A", "<A>!", "<a"};  // the last two are beyond
  const auto with = [&](std::size_t tokens, unsigned normalized) {
    nlohmann::json document = bpe.document(), added = nlohmann::json::array();
    for (std::size_t i = 0; i < tokens; ++i)
      added.push_back({{"id", bpe.tokens.size() + i},
                       {"content", names[i]},
                       {"special", true},
                       {"normalized", (normalized >> i & 1) == 1}});
    document["added_tokens"] = added;
    document["normalizer"] = {{"type", "Lowercase"}};
    folder.write("tokenizer.json", document.dump());
    return read_tokenizer_json(folder.path / "tokenizer.json");
  };
  for (unsigned normalized = 0; normalized < 16; ++normalized) {
    Tokenizer fitted = with(4, normalized);
    fitted.eos = size + 1;
    fitted.bos = size - 1;
    fitted.fit(size, "x");
    BOOST_CHECK(fitted.bos == size - 1 && !fitted.eos);
    const Tokenizer other = with(2, normalized);
    BOOST_CHECK_EQUAL(fitted.size(), other.size());
    BOOST_CHECK(fitted.marks == other.marks);
    for (int n = 0; n < 50; ++n) {
      const std::string text = random_text(random, 20, {"<a>", "<A", "<A>!", "<a>!", "<a", "A>", "!", "<", "b"});
      for (const SpecialText special : {SpecialText::letters, SpecialText::tokens})
        BOOST_REQUIRE(fitted.encode(text, special) == other.encode(text, special));
    }
  }
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused) {
  Random random;
  const BpeFiles bpe = random_bpe(random, 20);
  const Folder folder("tokenizer");
  const auto changed = [&](const std::function<void(nlohmann::json&)>& change) {
    return [&, change] {
      nlohmann::json document = bpe.document();
      change(document);
      folder.write("tokenizer.json", document.dump());
      read_tokenizer_json(folder.path / "tokenizer.json");
    };
  };
  using Json = nlohmann::json&;
  BOOST_CHECK_NO_THROW(changed([](Json) {})());
  refused(changed([](Json d) { d = 1; }), "tokenizer.json: 'model' is missing, or no object");
  refused(changed([](Json d) { d["model"].erase("vocab"); }), "'vocab' is missing, or no object");
  refused(changed([](Json d) { d["model"]["merges"] = {{"a", 1}}; }), "'merges' is missing, or no array");
  refused(changed([](Json d) { d["model"]["merges"][1] = 7; }), "merge 2: is no pair of tokens");
  refused(changed([](Json d) { d["model"]["merges"][4] = "qq r"; }), "merge 5, 'qq r'");
  refused(changed([](Json d) { d["model"]["merges"][4] = " a"; }), "merge 5, ' a'");
  refused(changed([](Json d) { d["model"]["vocab"]["a"] = 1'000'000'000; }), "'a': its number, 1000000000, is");
  refused(changed([](Json d) { d["model"]["vocab"]["a"] = -1; }), "'a': its number, -1, is");
  refused(changed([](Json d) { d["model"]["vocab"]["a"] = "x"; }), "'a': its number, \"x\", is");
  refused(changed([](Json d) { d["model"]["vocab"]["a"] = d["model"]["vocab"]["b"]; }), "is another's");
  refused(changed([](Json d) { d["model"]["merges"][4] = "日 a"; }), "'日' in a merge is not GPT-2's alphabet");
  // A byte that is no token is left out, or is the unknown token.
  const auto without_blank = [](Json d) {
    d["model"]["vocab"]["aaaaaaa"] = d["model"]["vocab"]["Ġ"];
    d["model"]["vocab"].erase("Ġ");
    d["model"]["merges"] = nlohmann::json::array();
  };
  changed(without_blank)();
  std::size_t left_out = 0;
  BOOST_CHECK_EQUAL(read_tokenizer_json(folder.path / "tokenizer.json").encode(" a  b", {}, &left_out).size(), 2u);
  BOOST_CHECK_EQUAL(left_out, 3u);
  changed([&](Json d) {
    without_blank(d);
    d["model"]["unk_token"] = "!";
  })();
  left_out = 0;
  BOOST_CHECK_EQUAL(read_tokenizer_json(folder.path / "tokenizer.json").encode(" a  b", {}, &left_out).size(), 5u);
  BOOST_CHECK_EQUAL(left_out, 0u);
  BOOST_CHECK_NO_THROW(changed([](Json d) { d["model"]["unk_token"] = "<unk>"; })());
  BOOST_CHECK_NO_THROW(changed([](Json d) { d["added_tokens"][0]["content"] = ""; })());
  refused(changed([](Json d) {
            d["added_tokens"][0].update({{"special", false}, {"content", std::string(1025, 'x')}});
          }),
          "has 1025 bytes, not 1 to 1024");
  const auto processor = [&](const nlohmann::json& single) {
    return changed([=](Json d) { d["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}}; });
  };
  const nlohmann::json mark{{"SpecialToken", {{"id", "<|end of text|>"}}}}, text{{"Sequence", {{"id", "A"}}}};
  BOOST_CHECK_NO_THROW(processor({mark, text})());
  BOOST_CHECK_NO_THROW(processor({mark, mark, text, mark})());
  refused(processor({mark, text, text}), "'post_processor': a template with the text twice");
  refused(processor(nlohmann::json::array({mark})), "'post_processor': a template without the text");
  refused(processor({{{"SpecialToken", {{"id", "a"}}}}, text}), "'post_processor': 'a' is no special token");
  refused(changed([&](Json d) {
            d["post_processor"] = {{"type", "TemplateProcessing"},
                                   {"single", {mark, text}},
                                   {"special_tokens", {{"<|end of text|>", {{"ids", {5000}}}}}}};
          }),
          "'post_processor': '<|end of text|>': 5000 is no token");
  refused(changed([](Json d) {
            d["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"a", 1}}};
          }),
          "'sep' is missing, or no array");
  refused(processor(nlohmann::json(1025, mark)), "'post_processor': adds more than 1024 tokens");
  refused(changed([](Json d) { d["added_tokens"][0]["id"] = 5; }), "its number, 5, is another's");
  const auto normalizer = [&](const nlohmann::json& step) { return changed([=](Json d) { d["normalizer"] = step; }); };
  refused(normalizer({{"type", "Titlecase"}}), "'normalizer': Titlecase is not supported");
  refused(normalizer({{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}), "'precompiled_charsmap' is not base64");
  refused(normalizer({{"type", "Precompiled"}, {"precompiled_charsmap", "CAAAAAAA"}}), "6 bytes have no trie of 8");
  refused(normalizer({{"type", "Prepend"}, {"prepend", std::string(1025, 'x')}}), "has 1025 bytes, more than 1024");
  refused(normalizer({{"type", "Sequence"}, {"normalizers", nlohmann::json(65, {{"type", "Nmt"}})}}), "more than 64");
  refused(changed([](Json d) { d["model"]["dropout"] = 0.1; }), "'dropout': 0.1 is not supported");
  for (const std::string key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    BOOST_CHECK_NO_THROW(changed([=](Json d) { d["model"][key] = std::string(1024, 'x'); })());
    refused(changed([=](Json d) { d["model"][key] = std::string(1025, 'x'); }),
            key + "' has 1025 bytes, more than 1024");
  }
  refused(changed([](Json d) { d["model"]["type"] = "Unigram"; }), "'vocab' is missing, or no array");
  refused(changed([](Json d) {
            const nlohmann::json pair = nlohmann::json::array({std::string(1025, 'x'), -1.0});
            d["model"] = {{"type", "Unigram"}, {"vocab", nlohmann::json::array({pair})}};
          }),
          "has 1025 bytes");
  refused(changed([](Json d) { d["model"]["type"] = "WordPiece"; }), "'unk_token' is missing, or no string");
  refused(changed([](Json d) { d["model"]["type"] = "Words"; }), "'model': Words is not supported");
  refused(changed([](Json d) { d["pre_tokenizer"]["type"] = "UnicodeScripts"; }), "UnicodeScripts is not supported");
  const auto decoder = [&](const nlohmann::json& step) { return changed([=](Json d) { d["decoder"] = step; }); };
  refused(decoder({{"type", "CTC"}}), "'decoder': CTC is not supported");
  refused(decoder({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1025, 'x')}}),
          "'content' has 1025 bytes, more than 1024");
  for (const char* content : {"", "ab"})
    refused(decoder({{"type", "Strip"}, {"content", content}, {"start", 1U}, {"stop", 0U}}),
            "'decoder': Strip: 'content' is no character");
  const auto split = [&](const std::string& regex, const char* behavior = "Isolated") {
    return changed([=](Json d) {
      d["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}};
    });
  };
  refused(split("a(b"), "tokenizer.json: the pattern 'a(b': end pattern with unmatched parenthesis");
  refused(split("a", "Doubled"), "'pre_tokenizer': 'behavior': Doubled is not supported");
}

// Patterns are limited together, wherever they are: 16 KiB each, 64 KiB in all.
BOOST_AUTO_TEST_CASE(patterns_are_limited_together) {
  Random random;
  nlohmann::json document = random_bpe(random, 20).document();
  const nlohmann::json pattern{{"Regex", std::string(16'384, 'a')}};
  const nlohmann::json replace{{"type", "Replace"}, {"pattern", pattern}, {"content", ""}};
  const nlohmann::json split{{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}};
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", {replace, replace}}};
  document["pre_tokenizer"] = split;
  document["decoder"] = replace;
  BOOST_CHECK_NO_THROW(read_tokenizer_json(document, "x"));
  document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, split}}};
  refused([&] { read_tokenizer_json(document, "x"); }, "x: the patterns have more than 65536 bytes");
}

// Neither a normalizer nor a decoder may make a text without end.
BOOST_AUTO_TEST_CASE(normalized_texts_are_limited) {
  Random random;
  const Folder folder("tokenizer");
  nlohmann::json document = random_bpe(random, 20).document();
  const nlohmann::json longer{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'a')}};
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", {longer, longer, longer, longer}}};
  folder.write("tokenizer.json", document.dump());
  const Tokenizer tokenizer = read_tokenizer_json(folder.path / "tokenizer.json");
  refused([&] { tokenizer.encode("a"); }, "the normalizer of the tokenizer makes more than");
  document["decoder"] = {{"type", "Sequence"}, {"decoders", {longer, longer, longer, longer}}};
  folder.write("tokenizer.json", document.dump());
  refused([&] { read_tokenizer_json(folder.path / "tokenizer.json"); }, "the decoder of the tokenizer makes more than");
}
