// Untrusted input beyond the tables of test_refused_input: hundreds of odd lines, locales with decimal commas,
// vocabularies with wrong content, files that change while they are read.
// needs: programs: all
#include "support/program.h"
#include "support/stored.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/io/table.h>
#include <seppo/nn/io/text_file.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <clocale>
#include <functional>
#include <iostream>
#include <locale>
#include <set>
#include <string>
#include <vector>

using namespace test;
using nlohmann::json;

namespace {

const Words kSmall{"--d-model", "8", "--heads", "1", "--d-ff", "8", "--max-steps", "3", "--log-format", "none"};

std::string character(char32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  std::string text;
  int shift = code < 0x800 ? 6 : code < 0x10000 ? 12 : 18;
  text += static_cast<char>((shift == 6 ? 0xC0u : shift == 12 ? 0xE0u : 0xF0u) | (code >> shift));
  while ((shift -= 6) >= 0) text += static_cast<char>(0x80u | ((code >> shift) & 0x3Fu));
  return text;
}

// 515 lines that are easily mistaken for something else: every control character; spaces, joiners, combining and
// direction marks from all over Unicode; digits of other scripts; words that look like values, code, paths or markup.
Words odd_lines() {
  std::set<std::string> lines;
  const auto add = [&](const std::string& text) {
    for (const std::string& line : {text, "a" + text + "b", text + " " + text}) lines.insert(line);
  };
  for (char32_t code = 1; code < 0x20; ++code)
    if (code != '\n') add(character(code));
  for (const auto& [first, last] : {std::pair<char32_t, char32_t>{0x7F, 0xA1},
                                    {0x2000, 0x200F},
                                    {0x2028, 0x202F},
                                    {0x2060, 0x206F},
                                    {0xFE00, 0xFE0F},
                                    {0xFFF9, 0xFFFD},
                                    {0x300, 0x310}})
    for (char32_t code = first; code <= last; ++code) add(character(code));
  for (const char32_t code : {0xADu, 0x600u, 0x61Cu, 0x663u, 0x966u, 0x180Eu, 0xFEFFu, 0xFF11u, 0xFFFEu, 0xD7FFu,
                              0xE000u, 0x1D7D9u, 0x1F3F3u, 0x1F468u, 0xE0001u, 0xF0000u, 0x10FFFFu})
    add(character(code));
  for (const char* word : {"",          " ",
                           "\t",        "null",
                           "None",      "nil",
                           "true",      "FALSE",
                           "undefined", "NaN",
                           "-Infinity", "inf",
                           "0",         "-0.0",
                           "1e309",     "0x1F",
                           "1,5",       "1.000.000",
                           "--help",    "-",
                           "--",        "#",
                           ";",         "\\",
                           "\\n",       "\"",
                           "'",         "`",
                           "''",        "\"\"",
                           "$HOME",     "${PATH}",
                           "$(exit 3)", "%s%n%d",
                           "%00",       "{0}",
                           "{{1}}",     "<unk>",
                           "<bos>",     "<eos>",
                           "<pad>",     "<a href=''>",
                           "<!--",      "]]>",
                           "&amp;",     "../..",
                           "/dev/null", "C:\\",
                           "CON",       "a' or 'a'='a",
                           "; drop",    "=1+1",
                           "@here",     "[1,2",
                           "{\"a\":1}", "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9",
                           "straße",    "İstanbul",
                           "日本語",    "ﷺ",
                           "ı",         "ǅ",
                           "ﬁ"})
    add(word);
  const Words all(lines.begin(), lines.end());
  BOOST_REQUIRE_GE(all.size(), 515);
  return {all.begin(), all.begin() + 515};
}

// Changes the config in a model file, which is written without a digest, so that it is not refused as damaged.
void change_config(const fs::path& path, const std::function<void(json&)>& change) {
  Stored content = read_stored(path);
  json config = json::parse(content.metadata.at("seppo.config"));
  change(config);
  content.metadata["seppo.config"] = config.dump();
  content.metadata.erase("seppo.format");
  content.metadata.erase("seppo.digest");
  write_stored(path, content);
}

}  // namespace

BOOST_AUTO_TEST_CASE(five_hundred_and_fifteen_odd_lines) {
  const Folder folder("strange");
  const Words lines = odd_lines();
  std::string pairs, input;
  for (const std::string& line : lines) {
    input += line + "\n";
    if (line.find('\t') == std::string::npos) pairs += line + "\t" + line + "\n";
  }
  folder.write("pairs", pairs);  // training accepts them, too
  const Result trained = folder.run(with(
      {"translate", "train", "--pairs", "pairs", "--val-pairs", "pairs", "--out", "t", "--max-length", "20"}, kSmall));
  BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
  const Result r = folder.run({"translate", "predict", "--model", "t"}, input);
  BOOST_CHECK_MESSAGE(r.code == 0 && r.err.empty(), r.err);
  BOOST_CHECK_EQUAL(std::count(r.out.begin(), r.out.end(), '\n'), 515);

  BOOST_REQUIRE_EQUAL(folder.run(with({"addsub", "train", "--out", "a"}, kSmall)).code, 0);
  int refused = 0;
  for (std::size_t i = 0; i < lines.size(); i += takes_memory_itself() ? 40u : 4u) {  // one process each
    const Result answer = folder.run({"addsub", "predict", "--model", "a"}, lines[i] + "\n");
    const bool is_blank = answer.code == 0 && answer.out == "\n";
    refused += !is_blank;
    BOOST_CHECK_MESSAGE(is_blank || (answer.code == 1 && answer.out.empty()), lines[i] << ": " << answer.out);
    BOOST_CHECK_EQUAL(std::count(answer.err.begin(), answer.err.end(), '\n'), is_blank ? 0 : 1);
    for (const char c : answer.err) BOOST_CHECK_MESSAGE(c == '\n' || static_cast<unsigned char>(c) >= 0x20, answer.err);
  }
  BOOST_CHECK_GE(refused, takes_memory_itself() ? 10 : 100);
}

#if defined(__SANITIZE_ADDRESS__)
// glibc never frees the list that it builds from LOCPATH.
extern "C" const char* __lsan_default_suppressions() { return "leak:__argz_add_sep\n"; }
#endif

// Numbers have a decimal point, both in input and output, whatever the locale.
BOOST_AUTO_TEST_CASE(a_locale_with_decimal_commas_changes_nothing) {
  const Folder folder("strange");
  const std::string made = (folder.path / "de_DE.UTF-8").string();
  if (std::system(("localedef -i de_DE -f UTF-8 " + made + " >" + made + ".log 2>&1").c_str()) != 0) {
    std::cout << "skipped: a locale with decimal commas cannot be made; install locales\n";
    return;
  }
  const Words train = with({"reverse", "train", "--lr", "0.003", "--dropout", "0.25", "--json"}, kSmall);
  const auto run = [&](const std::string& out) { return folder.run(with(train, {"--out", out})); };
  BOOST_REQUIRE_EQUAL(run("m").code, 0);
  const std::string model = read(folder.path / "m/model.safetensors"), config = read(folder.path / "m/config.json");
  ::setenv("LOCPATH", folder.path.c_str(), 1);
  ::setenv("LC_ALL", "de_DE.UTF-8", 1);
  const Result r = run("de");
  check_refused(folder, {"reverse", "train", "--lr", "0,003"}, 2, "--lr: '0,003' is not a number");
  const Result shown = folder.run({"seppo", "inspect", "de/model.safetensors"});
  // Like a program that adopts the user's locale.
  const char* const before = std::setlocale(LC_ALL, "");
  BOOST_CHECK(before && std::string(std::localeconv()->decimal_point) == ",");
  std::locale::global(std::locale(""));
  const auto read_again = seppo::SafeTensorsFile(folder.path / "de/model.safetensors");
  const json stored = seppo::read_model_config(read_again);
  seppo::write_safetensors(folder.path / "again", {{"number", json(0.003).dump()}}, {});
  folder.write("n.csv", "n\n1.5\n");
  const seppo::Features numbers = seppo::read_table(folder.path / "n.csv", {.numbers = {{"n"}}}).features({"n"});
  std::setlocale(LC_ALL, "C");
  std::locale::global(std::locale::classic());
  ::unsetenv("LOCPATH");
  ::unsetenv("LC_ALL");
  BOOST_CHECK_EQUAL(numbers[0][0], 1.5);
  BOOST_CHECK_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK(read(folder.path / "de/model.safetensors") == model);
  BOOST_CHECK(read(folder.path / "de/config.json") == config);
  BOOST_CHECK(last_line(r.out).contains("val_loss"));
  BOOST_CHECK_EQUAL(shown.out, folder.run({"seppo", "inspect", "m/model.safetensors"}).out);
  BOOST_CHECK_EQUAL(stored, json::parse(read_stored(folder.path / "m/model.safetensors").metadata.at("seppo.config")));
  BOOST_CHECK_EQUAL(read_stored(folder.path / "again").metadata.at("number"), "0.003");
}

BOOST_AUTO_TEST_CASE(vocabularies_of_model_files) {
  const Folder folder("strange");
  folder.write("pairs", "a b\tb\nc\td\na\tf\n");
  folder.write("text", std::string(100, 'a') + std::string(100, 'b'));
  const Words translate{"translate", "train",    "--pairs", "pairs",           "--val-pairs",
                        "pairs",     "--tokens", "words",   "--min-frequency", "1"};
  const Words charlm{"charlm", "train", "--data", "text", "--max-length", "8"};
  BOOST_REQUIRE_EQUAL(folder.run(with(with(translate, {"--out", "t"}), kSmall)).code, 0);
  BOOST_REQUIRE_EQUAL(folder.run(with(with(charlm, {"--out", "c"}), kSmall)).code, 0);
  const auto check_model = [&](const Words& command, const json& vocabulary, const std::string& part) {
    const std::string from = command[0] == "charlm" ? "c" : "t";
    fs::copy_file(folder.path / from / "model.safetensors", folder.path / "x", fs::copy_options::overwrite_existing);
    change_config(folder.path / "x", [&](json& config) {
      (from == "c" ? config["vocabulary"] : config["languages"]["source"]) = vocabulary;
    });
    check_refused(folder, with(command, {"--model", "x"}), 1, part);
  };
  const Words ask{"translate", "predict", "a"}, write{"charlm", "sample"};
  check_model(ask, json(), "lacks the vocabulary 'source'");
  check_model(ask, json::array(), "lacks the vocabulary 'source'");
  check_model(ask, {"<unk>", "<bos>"}, "lacks the vocabulary 'source'");
  check_model(ask, {"<unk>", "<bos>", "<eos>", "a", "a"}, "token a is there twice");
  check_model(ask, {"<unk>", "<bos>", "<eos>", "a", ""}, "token 4 is empty");
  check_model(ask, {"<unk>", "<bos>", "<eos>", "a", 5}, "an entry that is not text");
  check_model(ask, {"<unk>", "<bos>", "<eos>", "a"}, "its vocabularies do not fit its model");
  check_model(ask, {"a", "b", "c", "<eos>", "<bos>", "<unk>"}, "'source' does not begin with <unk>, <bos>, <eos>");
  std::vector<std::string> many{"<unk>", "<bos>", "<eos>"};
  for (int i = 0; i < 1'000'000; ++i) many.push_back(std::to_string(i));
  check_model(ask, many, "its vocabularies do not fit its model");
  check_model(write, json::array(), "the model file's vocabulary has 0");
  check_model(write, {"a", "a"}, "there twice");
  check_model(write, {"a", "bc"}, "vocabulary has 'bc'");
  check_model(write, {"a", ""}, "");
}

// Whatever computes with a model takes the precision of its training.
BOOST_AUTO_TEST_CASE(precisions_of_model_files) {
  const Folder folder("strange");
  folder.write("text", std::string(100, 'a') + std::string(100, '\n'));
  BOOST_REQUIRE_EQUAL(folder.run(with({"addsub", "train", "--out", "addsub"}, kSmall)).code, 0);
  BOOST_REQUIRE_EQUAL(
      folder.run(with({"charlm", "train", "--data", "text", "--max-length", "8", "--out", "charlm"}, kSmall)).code, 0);
  for (const Words& command : {Words{"addsub", "predict", "1+1"}, {"addsub", "trace", "1+1"}, {"charlm", "sample"}}) {
    const Words of_model = with(command, {"--model", command[0]});
    BOOST_CHECK_EQUAL(folder.run(of_model).code, 0);
    const fs::path file = folder.path / command[0] / "model.safetensors";
    change_config(file, [](json& config) { config["training"]["matmul_precision"] = "utmost"; });
    check_refused(folder, of_model, 1, "matmul_precision");
    change_config(file, [](json& config) { config["training"]["matmul_precision"] = "medium"; });
  }
}

// The numbers of training and validation pairs are reported, including overlaps.
BOOST_AUTO_TEST_CASE(pairs_for_training_and_validation) {
  const Folder folder("strange");
  folder.write("pairs", "a b\tb a\nb a\ta b\na b\tb a\na a\tb b\nb b\ta a\n");
  for (const auto& [held, shared] : {std::pair{"3", "1"}, {"1", "0"}}) {
    const Result r = folder.run({"translate", "train", "--pairs", "pairs", "--validation", held, "--out", held,
                                 "--d-model", "8", "--heads", "1", "--d-ff", "8", "--max-steps", "1"});
    const std::string told = std::string(held) + " validation pairs (" + shared + " of them in training too)";
    BOOST_CHECK_MESSAGE(r.code == 0 && r.err.find(told) != std::string::npos, r.err);
  }
}

// A pair is in training if both of its texts are, together.
BOOST_AUTO_TEST_CASE(pairs_of_a_source_with_another_target) {
  const Folder folder("strange");
  folder.write("train", "a b\tb a\nb a\ta b\na a\tb b\n");
  folder.write("val", "a b\ta b\na a\tb b\nb b\ta b\nb a\tb b\n");
  const Result r = folder.run({"translate", "train", "--pairs", "train", "--val-pairs", "val", "--d-model", "8",
                               "--heads", "1", "--d-ff", "8", "--max-steps", "1"});
  BOOST_CHECK_MESSAGE(r.err.find("4 validation pairs (1 of them in training too)") != std::string::npos, r.err);
}

BOOST_AUTO_TEST_CASE(files_that_change_while_they_are_read) {
  const Folder folder("strange");
  const fs::path file = folder.path / "text";
  for (const std::size_t size : {300'000u, 1'000'001u})
    for (const std::size_t later : {0u, 299'999u, 1'500'000u}) {
      folder.write("text", std::string(size, 'x'));
      seppo::TextReader reader(file);
      BOOST_CHECK_GT(reader.next().size(), 200'000);
      fs::resize_file(file, later);
      if (later > size) std::fstream(file, std::ios::in | std::ios::out).seekp(300'000) << std::string(1'200'000, 'y');
      BOOST_CHECK_EXCEPTION(while (!reader.next().empty()), seppo::FileError, [&](const seppo::FileError& e) {
        return std::string(e.what()).find("changed while it was read: it had " + std::to_string(size)) !=
               std::string::npos;
      });
    }
  folder.write("text", "");
  BOOST_CHECK_EQUAL(seppo::read_text(file), "");
  BOOST_CHECK_NE(seppo::read_text("/proc/self/status"), "");  // a file that reports no size
}

// The output folder is checked before the data, and nothing is created.
BOOST_AUTO_TEST_CASE(where_to_train_is_checked_first) {
  const Folder folder("strange");
  folder.write("file", "");
  folder.write("bad", "\xff");
  BOOST_REQUIRE_EQUAL(folder.run(with({"reverse", "train", "--out", "used"}, kSmall)).code, 0);
  for (const Words& train : {Words{"addsub", "train", "--data", "bad"},
                             {"charlm", "train", "--data", "bad"},
                             {"translate", "train", "--pairs", "bad"}}) {
    check_refused(folder, with(train, {"--out", "file"}), 2, "--out: 'file' is not a folder");
    check_refused(folder, with(train, {"--out", "file/m"}), 2, "--out: cannot write to folder 'file/m'");
    check_refused(folder, with(train, {"--out", "used"}), 2, "--out: an earlier training is in 'used'");
    check_refused(folder, with(train, {"--out", "new"}), 1, "bad:1:1");
    check_refused(folder, with(train, {"--out", "used", "--overwrite"}), 1, "bad:1:1");
    BOOST_CHECK_EQUAL(folder.run(with(train, {"--out", "used", "--dump-config"})).code, 0);
  }
  // A resumed run keeps its own options.
  check_refused(folder, {"reverse", "train", "--resume", "used", "--d-model", "16"}, 2,
                "--d-model: cannot be given with --resume");
  check_refused(folder, {"reverse", "train", "--resume", "used", "--heads", "2"}, 2,
                "--heads: cannot be given with --resume");
}

// Pipes without a writer, endless devices, names that are not UTF-8, folders in place of files.
BOOST_AUTO_TEST_CASE(paths_of_every_kind) {
  const Folder folder("strange");
  BOOST_REQUIRE_EQUAL(::mkfifo((folder.path / "pipe").c_str(), 0600), 0);
  folder.write("\xff", "");
  folder.write("good", "a\tb\n");
  const Words from_file[] = {
      {"addsub", "train", "--data"}, {"charlm", "train", "--data"}, {"translate", "train", "--pairs"}};
  for (const Words& train : from_file) {
    check_refused(folder, with(train, {"pipe", "--out", "m"}), 2, train[2] + ": 'pipe' is a pipe, not a file");
    check_refused(folder, with(train, {"/dev/zero", "--out", "m"}), 2, "'/dev/zero' is a device, not a file");
    check_refused(folder, with(train, {".", "--out", "m"}), 2, "'.' is a folder, not a file");
    check_refused(folder, with(train, {"\xff", "--out", "m"}), 2, "'\\xff' is not UTF-8, which config.json needs");
    check_refused(folder, with(train, {"\x1b[31m", "--out", "m"}), 2, "there is no file '\\x1b[31m'");
  }
  for (const char* program : {"addsub", "reverse", "count", "odd_one", "translate"})
    check_refused(folder, {program, "predict", "--model", "pipe", "1"}, 2, "--model: 'pipe' is a pipe, not a file");
  check_refused(folder, {"charlm", "sample", "--model", "pipe"}, 2, "'pipe' is a pipe, not a file");
  check_refused(folder, {"seppo", "inspect", "pipe"}, 2, "'pipe' is a pipe, not a file");
  check_refused(folder, {"reverse", "train", "--config", "pipe", "--out", "m"}, 2, "'pipe' is a pipe, not a file");
  for (const std::string name : {"model.safetensors", "config.json", "metrics.jsonl", "report.html"}) {
    fs::create_directories(folder.path / ("in" + name) / name);
    check_refused(folder, {"reverse", "train", "--out", "in" + name}, 2, name + "' is in the way: it is not a file");
  }
}

// 10 GB that are never read, because the header is not that of a model.
BOOST_AUTO_TEST_CASE(a_huge_file_is_refused_by_its_header) {
  const Folder folder("strange");
  constexpr std::uint64_t kBytes = 10'000'000'000;
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[2500000000],"data_offsets":[0,)" + std::to_string(kBytes) + "]}}";
  const std::uint64_t size = header.size();
  folder.write("huge", std::string(reinterpret_cast<const char*>(&size), 8) + header);
  fs::resize_file(folder.path / "huge", 8 + size + kBytes);
  const Result r = folder.run({"addsub", "predict", "--model", "huge", "1 + 2"});
  BOOST_CHECK_MESSAGE(r.code == 1 && r.err.find("no configuration of a model") != std::string::npos, r.err);
  if (!takes_memory_itself()) BOOST_CHECK_LT(r.peak_mb, 1000);
}
