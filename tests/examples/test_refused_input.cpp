// Tables of invalid command lines and files: each row is refused with its exit code, in a line that names the culprit,
// and leaves nothing behind; whatever is accepted keeps its lines.
// needs: programs: all
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <seppo/autograd/core/printable.h>

#include <string>
#include <vector>

using namespace test;

namespace {

struct Row {
  Words options;
  std::string part;  // of the message
  int code = 2;
};

void check_rows(const Folder& folder, const Words& command, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    Words words = command;
    words.insert(words.end(), row.options.begin(), row.options.end());
    check_refused(folder, words, row.code, row.part);
  }
}

// Each value of an option is refused with the option's name, the value as displayed, and the allowed values.
void check_values(const Folder& folder, const Words& command, const std::string& option, const Words& values,
                  const std::string& allowed) {
  for (const std::string& value : values) {
    Words words = command;
    words.insert(words.end(), {option, value});
    const std::string shown(seppo::printable(value));
    check_refused(folder, words, 2,
                  value.empty() ? option + ": its value is empty" : option + ": '" + shown + "' is not " + allowed);
  }
}

const Words kTrain{"reverse", "train", "--out", "m"};
const std::vector<Words> kTrainings{kTrain, {"addsub", "train", "--out", "m"}};

}  // namespace

BOOST_AUTO_TEST_CASE(words_and_options) {
  const Folder folder;
  const std::string long_word(100'000, 'a');
  check_rows(folder, {"reverse"},
             {{{}, "no command; give one of train, eval, predict"},
              {{""}, "no command"},
              {{"fly"}, "'fly'"},
              {{"train", "--help=1"}, "unrecognised option '--help=1'"}});
  for (const Words& train : kTrainings)
    check_rows(folder, train,
               {{{"--unknown"}, "unrecognised option '--unknown'"},
                {{"--learn", "0.1"}, "unrecognised option '--learn'"},
                {{"--epoch", "1"}, "unrecognised option '--epoch'; did you mean --epochs?"},
                {{"--batch", "1"}, "unrecognised option '--batch'"},
                {{"--no-seed"}, "unrecognised option '--no-seed'"},
                {{"--no-json"}, "unrecognised option '--no-json'"},
                {{"--json=1"}, "'--json' does not take any arguments"},
                {{"stray"}, "unexpected word 'stray'"},
                {{"--", "stray"}, "unexpected word 'stray'"},
                {{"-x"}, "unexpected word '-x'"},
                {{""}, "unexpected word ''"},
                {{"--=1"}, "unexpected word '1'"},
                {{"--seed", "1", "--seed=1"}, "--seed: is given twice"},
                {{"--no-bias", "--no-bias"}, "--bias: is given twice"},
                {{"--seed"}, "'--seed' is missing"},
                {{"--seed="}, "--seed: its value is empty"},
                {{"--%option%="}, "--%option%: its value is empty"},
                {{"--seed", ""}, "--seed: its value is empty"},
                {{"--batch-size", "--seed", "1"}, "--batch-size: its value is missing before '--seed'"},
                {{"--" + long_word}, "..."},
                {{long_word}, "unexpected word 'aaaa"},
                {{"a\nb"}, "'a\\x0ab'"},
                {{"--x\x1b[31m"}, "'--x\\x1b[31m'"},
                {{"\xff"}, "'\\xff'"}});
  folder.write("rows", "[]");
  for (const char* command : {"train", "data"})
    check_refused(folder, {"addsub", command, "--data", "rows", "--rows", "100"}, 2,
                  "--rows: cannot be given with --data");
}

BOOST_AUTO_TEST_CASE(numbers_are_plain_and_within_their_range) {
  const Folder folder;
  for (const Words& train : kTrainings) {
    check_values(folder, train, "--batch-size",
                 {"-1",
                  "-5",
                  "+5",
                  " 5",
                  "5 ",
                  "5_",
                  "0x10",
                  "1e3",
                  "3.0",
                  "5,0",
                  "0",
                  "",
                  "x",
                  "nan",
                  "٣",
                  "５",
                  "2147483648",
                  "18446744073709551615",
                  "18446744073709551616",
                  "%n%s",
                  "1\n2",
                  "\x1b[31m"},
                 "an integer in 1..1000000");
    check_values(folder, train, "--lr",
                 {"nan", "-nan", "inf", "-0.1", "1e999", "1e-400", "1e-60", "0,1", "0", "", "0x1p3", ".5.", "101"},
                 "a number in 1e-12..100");
    check_values(folder, train, "--dropout", {"1.5", "-0.1", "nan"}, "a number in 0..");
    check_values(folder, train, "--adam-eps", {"-1", "nan", "0"}, "a number in 1e-30..1");
    check_values(folder, train, "--momentum", {"-1", "nan", "1"}, "a number in 0..");
    check_values(folder, train, "--clip-norm", {"-1", "nan"}, "a number in 0..");
    check_values(folder, train, "--seed", {"-1", "18446744073709551616", "%n%s"}, "an integer in 0..");
    check_values(folder, train, "--threads", {"-1", "1000000"}, "an integer in 0..256");
    check_values(folder, train, "--warmup-steps", {"-1"}, "an integer in 0..");
    check_values(folder, train, "--max-steps", {"-1"}, "an integer in 0..");
    check_rows(folder, train,
               {{{"--adam-betas", "0.9,1"}, "--adam-betas: '1' is not a number"},
                {{"--adam-betas", "0.9,nan"}, "'nan' is not a number"},
                {{"--adam-betas", ","}, "'' is not a number"},
                {{"--batch-size", "\xff"}, "--batch-size: '\\xff' is not UTF-8"},
                {{"--adam-betas", "0.9"}, "--adam-betas: '0.9' is not two numbers"},
                {{"--adam-betas", "0.9,0.98,0.5"}, "'0.98,0.5' is not a number"},
                {{"--seed=\xff"}, "--seed: '\\xff' is not UTF-8"},
                {{"--d-model", "30", "--heads", "4"}, "--d-model 30 is not a multiple of --heads 4"},
                {{"--optimizer", "rmsprop"}, "--optimizer: 'rmsprop' is not one of adam, sgd, adagrad"},
                {{"--heads", "65536", "--head-width", "257"}, "65536 heads of 257 columns are wider than"},
                {{"--head-width", "3", "--positions", "rotary"}, "rotary positions turn pairs of columns"},
                {{"--d-model", "65536", "--d-ff", "65536"}, "--d-model: there is memory to train", 1}});
  }
  for (const char* option : {"--epochs", "--heads", "--d-model", "--d-ff"})
    check_values(folder, {"charlm", "train", "--out", "m", "--data", "x"}, option, {"0", "2147483648"},
                 "an integer in 1..");
  const Words addsub{"addsub", "train", "--out", "m"}, translate{"translate", "train", "--out", "m"};
  check_values(folder, addsub, "--enc-layers", {"-1", "1000000000"}, "an integer in 0..1000");
  check_values(folder, translate, "--max-length", {"0", "1099511627776"}, "an integer in 1..1048576");
}

BOOST_AUTO_TEST_CASE(paths_and_files_of_options) {
  const Folder folder;
  folder.write("file", "");
  fs::create_directory(folder.path / "folder");
  check_rows(folder, {"reverse", "train"},
             {{{"--out", "file"}, "'file' is not a folder"},
              {{"--out", "file/m"}, "cannot write to folder 'file/m'"},
              {{"--out", "/proc/nothing"}, "--out: "},
              {{"--out", ""}, "--out: its value is empty"}});
  check_rows(folder, kTrain,
             {{{"--config", "none"}, "--config: there is no file 'none'"},
              {{"--config", "folder"}, "--config: 'folder' is a folder, not a file"},
              {{"--config", "/dev/null"}, "--config: '/dev/null' is a device, not a file"},
              {{"--resume", "none"}, "--resume: there is no checkpoint in 'none'"},
              {{"--resume", "folder", "--d-model", "32"}, "there is no checkpoint in 'folder'"}});
  check_rows(folder, {"reverse", "predict", "1"},
             {{{"--model", "none"}, "there is no model 'none'; train one first: "},
              {{"--model", "file"}, "file: 0 bytes are too short", 1}});
  check_rows(folder, {"translate", "predict", "x"},
             {{{"--beam", "0"}, "--beam: '0'"}, {{"--n-best", "3", "--beam", "1"}, "--n-best: 3 is above --beam 1"}});
}

BOOST_AUTO_TEST_CASE(files_of_options) {
  const Folder folder;
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "c:1:1: not valid JSON"},
      {"[", "c:1:2: not valid JSON"},
      {"[]", "is not a file with a JSON object"},
      {"{}{}", "c:1:3: not valid JSON"},
      {"{\"\xff\":1}", "c:1:3: byte 0xff is not UTF-8"},
      {R"({"program":"addsub"})", "is of \"addsub\", not of reverse"},
      {R"({"model":[]})", "'model' is not an object"},
      {R"({"model":null})", "'model' is not an object"},
      {R"({"training":5})", "'training' is not an object"},
      {R"({"model":{"x":1}})", "'x' of 'model' is not known"},
      {R"({"model":{"d_model":-1}})", "--d-model: '-1' is not an integer"},
      {R"({"model":{"d_model":"8"},"training":{"lr":"nan"}})", "--lr: 'nan' is not a number"},
      {R"({"training":{"lr":1e999}})", "c:1:23: not valid JSON"},
      {R"({"training":{"lr":1,"lr":2}})", "the key 'lr' is there twice"},
      {R"({"training":{"adam_betas":[1,2,3]}})", "--adam-betas: "},
      {R"({"training":{"seed":-1}})", "--seed: '-1' is not an integer"},
      {R"({"training":{"in_order":0}})", "'in_order' of 'training' is neither true nor false"},
      {R"({"training":{"in_order":"no"}})", "'in_order' of 'training' is neither true nor false"},
      {R"({"training":{"in_order":null}})", "'in_order' of 'training' is neither true nor false"}};
  for (const auto& [content, part] : rows) {
    folder.write("c", content);
    check_refused(folder, {"reverse", "train", "--out", "m", "--config", "c"}, 2, part);
  }
  folder.write("c", R"({"data":{"pairs":5}})");
  check_refused(folder, {"translate", "train", "--out", "m", "--config", "c"}, 2, "'pairs' of 'data' is not a text");
}

BOOST_AUTO_TEST_CASE(files_of_data) {
  const Folder folder;
  struct File {
    std::string program, content, part;
    int code = 1;
  };
  using namespace std::string_literals;
  std::string ten = "[\"BOS EOS\"";  // the minimum number of rows
  for (int i = 1; i < 10; ++i) ten += ",\"BOS EOS\"";
  ten += "]";
  const std::vector<File> files{
      {"translate", "", "data: is empty"},
      {"translate", "\n\n", "data:1: '' has no tab"},
      {"translate", "a\tb\ncd\n", "data:2: 'cd' has no tab"},
      {"translate", "a\tb\rc\td\r", "--validation: 1 of 1 pairs", 2},  // a lone CR does not end a line
      {"translate", "a\tb", "--validation: 1 of 1 pairs", 2},
      {"translate", "a\tb\nc\t\0d\n"s, "data:2:3: byte 0x00 is not text"},
      {"translate", "a\tb\nc\t\xc0\x80\n", "data:2:3: byte 0xc0 is not UTF-8"},
      {"translate", "a\tb\n\xed\xa0\x80\tx\n", "data:2:1: byte 0xed is not UTF-8"},
      {"translate", "a a a a a a a a\tb\na\tb\n", "--max-length: no training pair has at most 8", 2},  // plus eos
      {"translate", "a\tb b b b b b b b b\na\tb\n", "--max-length: no training pair has at most 8", 2},
      {"charlm", "", "data: characters are too few: training has 0"},
      {"charlm", "abc\n", "data: characters are too few"},
      {"charlm", "abcdef\0ghi"s, "data:1:7: byte 0x00 is not text"},
      {"charlm", "abcd\nef\xffghi", "data:2:3: byte 0xff is not UTF-8"},
      {"charlm",
       "\xef\xbb\xbf"
       "abcdefghijk\xc3",
       "data:1:12: byte 0xc3 is not UTF-8"},  // cut within a character
      {"addsub", "", "data:1:1: not valid JSON"},
      {"addsub", "[]", "data: is not a JSON object with the list inp_expression"},
      {"addsub", "{}", "data: is not a JSON object with the list inp_expression"},
      {"addsub", "[] x", "data:1:4: not valid JSON"},
      {"addsub", "[]\0x"s, "data:1:3: byte 0x00 is not text"},
      {"addsub", R"({"inp_expression":[],"inp_expression":[]})", "the key 'inp_expression' is there twice"},
      {"addsub", std::string(100'000, '['), "data:1:"},
      {"addsub", R"({"inp_expression":[NaN]})", "data:1:20: not valid JSON"},
      {"addsub", R"({"inp_expression":["BOS EOS"]})", "data: is not a JSON object with the list out_expression"},
      {"addsub", R"({"inp_expression":[1],"out_expression":[1]})", "data: "},
      {"addsub", R"({"inp_expression":)" + ten + R"(,"out_expression":)" + ten + "}", "'BOS EOS'"}};
  for (const File& file : files) {
    folder.write("data", file.content);
    Words words{file.program, "train", "--out", "m", file.program == "translate" ? "--pairs" : "--data", "data"};
    if (file.program != "addsub") words.insert(words.end(), {"--max-length", "8"});
    if (file.program == "translate") words.insert(words.end(), {"--validation", "1"});
    check_refused(folder, words, file.code, file.part);
  }
}

// Each line of input yields one line of output, whatever it contains.
BOOST_AUTO_TEST_CASE(lines_of_standard_input) {
  const Folder folder;
  folder.write("pairs", "a b\tb\r\nc\td\ne\tf");
  const Words small{"--d-model", "8", "--heads", "1", "--d-ff", "8", "--max-steps", "1", "--log-format", "none"};
  Words translate{"translate", "train",           "--pairs", "pairs", "--val-pairs", "pairs",        "--tokens",
                  "words",     "--min-frequency", "1",       "--out", "t",           "--max-length", "8"};
  Words addsub{"addsub", "train", "--out", "a"};
  for (Words* words : {&translate, &addsub}) {
    words->insert(words->end(), small.begin(), small.end());
    const Result r = folder.run(*words);
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  }

  const Words naughty{"",
                      "  \t ",
                      "a",
                      "a\r",
                      "<pad> <eos> <bos> <unk>",
                      "undefined",
                      "null",
                      "\xef\xbb\xbf"
                      "a",
                      "٣",
                      "１２",
                      "1−2",
                      "e\xcc\x81",
                      "\xe2\x80\xae"
                      "abc",
                      "\xe2\x80\xa8",
                      "\xf0\x9f\x8f\xb3",
                      "%s%n",
                      "<script>alert(0)</script>",
                      "'; DROP TABLE users",
                      "../../etc/passwd",
                      "$(touch x)",
                      "\x1b[31m",
                      "\x7f",
                      "\xc2\x85",
                      "NaN",
                      "-1/0",
                      "1e1000",
                      "{{7*7}}",
                      "\\",
                      "\"",
                      "Ω≈ç√∫",
                      "田中さん"};
  std::string input;
  for (const std::string& line : naughty) input += line + "\n";
  const Result r = folder.run({"translate", "predict", "--model", "t"}, input);
  BOOST_CHECK_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_EQUAL(std::count(r.out.begin(), r.out.end(), '\n'), std::ssize(naughty));
  BOOST_CHECK(r.out.starts_with("\n\n"));
  BOOST_CHECK_EQUAL(folder.run({"translate", "predict", "--model", "t"}).out, "");

  const auto refused = [&](const Words& command, const std::string& text, const std::string& part) {
    const std::size_t entries = folder.files();
    const Result result = folder.run(command, text);
    BOOST_CHECK_MESSAGE(result.code == 1 && result.err.find(part) != std::string::npos, text << ": " << result.err);
    BOOST_CHECK_MESSAGE(std::count(result.err.begin(), result.err.end(), '\n') == 1, "not one line: " << result.err);
    BOOST_CHECK_EQUAL(folder.files(), entries);
  };
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {std::string("a\0", 2), "standard input:2:2: byte 0x00 is not text"},
           {"b\xff", "standard input:2:2: byte 0xff is not UTF-8"},
           {"a a a a a a a a a a", "at most"},
           {std::string((1 << 20) + 1, 'a'), "standard input:2: is longer than 1048576 bytes"}})
    refused({"translate", "predict", "--model", "t"}, "a\n" + line + "\n", part);
  for (const char* line : {"٣ + 1", "１ + 1", "1 − 2", "1 0 + 1", "1 + +2", "1 +", "+", "1 + 2 + 3", "1 +\xcc\x81 2",
                           "99999999999999999999 + 1", "100 + 1", "50 - 1", "x", "BOS EOS",
                           "BOS POSITIVE 01 add POSITIVE 02", "BOS POSITIVE 011 add POSITIVE 02 EOS"})
    refused({"addsub", "predict", "--model", "a"}, std::string("1 + 2\n") + line + "\n",
            "standard input:2: expression '");
}
