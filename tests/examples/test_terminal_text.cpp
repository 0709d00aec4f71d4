// What others have put into model files and configs does nothing to a terminal, and a line of text stays one line.
// needs: programs: all
#include "app/attention_pictures.h"
#include "app/printable.h"
#include "support/stored.h"
#include "support/terminal.h"

#include <seppo/nn/io/model_file.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

using namespace test;
using nlohmann::json;

namespace {

constexpr const char* kTitle = "\x1b]0;pwned\x07";  // sets the window's title in many terminals
const std::string kTiny = " --d-model 8 --heads 1 --d-ff 8 --max-steps 1 --log-format none";

bool is_harmless(const std::string& text) {
  return std::ranges::none_of(text, [](char c) { return (c >= 0 && c < 0x20 && c != '\n') || c == 0x7F; }) &&
         text.find("\xc2\x9b") == std::string::npos;
}

// Changes the config in a model file, whose digest is then right.
void change_config(const fs::path& file, const std::function<void(json&)>& change) {
  Stored stored = read_stored(file);
  json config = json::parse(stored.metadata[seppo::kConfigKey]);
  change(config);
  stored.metadata[seppo::kConfigKey] = config.dump();
  write_stored(file, stored);
}

}  // namespace

BOOST_AUTO_TEST_CASE(control_characters_are_spelt_out) {
  using namespace examples;
  BOOST_CHECK_EQUAL(shown_line("größte\tZahl"), "größte\tZahl");
  BOOST_CHECK_EQUAL(shown_line("\x1b[1m\r\n\x7f"), "\\x1b[1m\\x0d\\x0a\\x7f");
  BOOST_CHECK_EQUAL(shown_line("a\xc2\x9b b\xff"), "a\\xc2\\x9b b\\xff");  // CSI as one character; no UTF-8
  BOOST_CHECK_EQUAL(shown_line(std::string("\0", 1)), "\\x00");
  BOOST_CHECK(!has_controls("a\t\xe2\x80\xa8 b") && !has_controls(""));
  for (const char* text : {"\n", "a\rb", "\x1b", "\xc2\x85", "\xff"}) BOOST_CHECK(has_controls(text));
  BOOST_CHECK_EQUAL(shown("a\x1b\n"), "a\x1b\n");  // this test's output is no terminal
}

// On a terminal they are escaped; into a pipe or file go the characters that the model wrote.
BOOST_AUTO_TEST_CASE(a_model_that_writes_escape_sequences) {
  const Folder folder("terminal");
  folder.write("text", std::string(100, 'a') + std::string(100, 'b') + std::string(100, '\n'));
  BOOST_REQUIRE_EQUAL(folder.run(words("charlm train --data text --max-length 8 --out c" + kTiny)).code, 0);
  change_config(folder.path / "c/model.safetensors", [](json& c) { c["vocabulary"] = {"\n", "\x1b", "\u009b"}; });
  const auto sample = words("charlm sample --model c --length 200 --temperature 100");
  const std::string seen = on_terminal(folder, 80, sample), piped = folder.run(sample).out;
  BOOST_CHECK_MESSAGE(is_harmless(seen), seen);
  BOOST_CHECK(seen.find("\\x1b") != std::string::npos && seen.find("\\xc2\\x9b") != std::string::npos);
  BOOST_CHECK(piped.find('\x1b') != std::string::npos && piped.find("\\x1b") == std::string::npos);
  BOOST_CHECK_EQUAL(std::ranges::count(seen, '\n'), std::ranges::count(piped, '\n'));
}

BOOST_AUTO_TEST_CASE(words_with_control_characters) {
  const Folder folder("terminal");
  folder.write("pairs", "a b\tx y\nb a\ty x\na b\tx y\nc\x1b[1m \xc2\x9b\tz\x07 x\n");
  const Result trained = folder.run(
      words("translate train --pairs pairs --val-pairs pairs --tokens words --min-frequency 1 --out t" + kTiny));
  BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const auto config = read_stored(folder.path / "t/model.safetensors").metadata[seppo::kConfigKey];
  const json languages = json::parse(config)["languages"];
  BOOST_CHECK_EQUAL(languages["source"], (json{"<unk>", "<bos>", "<eos>", "a", "b"}));
  BOOST_CHECK_EQUAL(languages["target"], (json{"<unk>", "<bos>", "<eos>", "x", "y"}));
  for (const char* token : {"two\nlines", "\x1b[31mred", "\u009b1m", "back\rspace"})
    for (const char* side : {"source", "target"}) {
      fs::copy_file(folder.path / "t/model.safetensors", folder.path / "x", fs::copy_options::overwrite_existing);
      change_config(folder.path / "x", [&](json& c) { c["languages"][side][4] = token; });
      check_refused(folder, {"translate", "predict", "--model", "x", "a"}, 1,
                    "the vocabulary '" + std::string(side) + "' has '");
      check_refused(folder, {"translate", "predict", "--model", "x", "a"}, 1, "control character");
    }
}

BOOST_AUTO_TEST_CASE(texts_that_are_shown) {
  const Folder folder("terminal");
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a\x1b[1m";
  folder.write("text", text);
  const std::string rows = on_terminal(folder, 80, words("charlm data --data text --block 8"));
  BOOST_CHECK_MESSAGE(is_harmless(rows) && rows.find("a\\x1b[1m") != std::string::npos, rows);
  const std::string steps = on_terminal(folder, 80, {"addsub", "trace", "two \x1b[m words\x07"});
  BOOST_CHECK_MESSAGE(is_harmless(steps) && steps.find("\\x1b[m") != std::string::npos, steps);
  const Result traced = folder.run({"addsub", "trace", "--json", "no \xff"});
  BOOST_REQUIRE_MESSAGE(traced.code == 0, traced.err);
  BOOST_CHECK_EQUAL(json::parse(traced.out)["words"][1], "\uFFFD");
}

BOOST_AUTO_TEST_CASE(options_of_a_file) {
  const Folder folder("terminal");
  folder.write("evil", json{{"program", "charlm"}, {"data", {{"data", kTitle}, {"train_share", .9}}}}.dump());
  const std::string help = on_terminal(folder, 80, words("charlm train --config evil --help"));
  BOOST_CHECK_MESSAGE(is_harmless(help) && help.find("[\\x1b]0;pwned\\x07]") != std::string::npos, help);
  folder.write("\u009b", "aaaaaaaa");
  folder.write("csi", json{{"program", "charlm"}, {"data", {{"data", "\u009b"}}}}.dump());
  const std::string dumped = on_terminal(folder, 80, words("charlm train --config csi --dump-config"));
  BOOST_CHECK_MESSAGE(is_harmless(dumped), dumped);
  BOOST_CHECK_EQUAL(json::parse(dumped)["data"]["data"], "\u009b");
}

BOOST_AUTO_TEST_CASE(metadata_of_a_file) {
  const Folder folder("terminal");
  seppo::write_safetensors(folder.path / "m", {{"key\u009b", std::string("\x7f\u009b\x1b") + kTitle}}, {});
  for (const char* how : {"", " --config", " --json --config"}) {
    const std::string seen = on_terminal(folder, 80, words("seppo inspect m" + std::string(how)));
    BOOST_CHECK_MESSAGE(is_harmless(seen), seen);
  }
  const Json told = last_line(folder.run(words("seppo inspect m --json --config")).out);
  BOOST_CHECK_EQUAL(told["metadata"]["key\u009b"], std::string("\x7f\u009b\x1b") + kTitle);
}

// XML has no control characters, not even as references.
BOOST_AUTO_TEST_CASE(pictures_of_attention) {
  const seppo::AttentionMap map{"layer", {1, 1, 2, 2}, {1, 0, 0.5f, 0.5f}};
  const examples::AttentionLabels labels{{"\x1b[1m", "\n\uFFFE"}, {"\x01\u009b", "\xff\uFFFF"}};
  const std::string svg = examples::attention_svg(map, labels), text = examples::attention_text(map, 0, labels);
  BOOST_CHECK_MESSAGE(is_harmless(svg) && is_harmless(text), text);
  BOOST_CHECK_NE(svg.find("<title>\\x1b[1m looks at \\x01\\xc2\\x9b: 1.000</title>"), std::string::npos);
  for (const char* no_xml : {"\uFFFE", "\uFFFF", "\xff"})
    BOOST_CHECK_EQUAL(svg.find(no_xml) == std::string::npos, true);
  BOOST_CHECK_EQUAL(std::ranges::count(text, '\n'), 4);
}
