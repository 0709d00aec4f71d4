// What charlm and llm report about a training run, recomputed: the loss of the first step from the training part of the
// text alone, and each measure of the kept model from its scores on the rest.
// needs: programs: charlm llm
#include "llm/folder.h"
#include "support/measures.h"
#include "support/tokenizer_files.h"

#include <seppo/models/language_model.h>

#include <boost/test/unit_test.hpp>

#include <map>
#include <numbers>
#include <set>

using namespace test;
using seppo::Ragged;
using Tokens = std::vector<int>;

namespace {

std::string prose(int words) {
  static const char* const kWords[] = {"the", "fox", "saw", "a", "crow.", "Cheese,", "und", "sang\n", "so", "it"};
  seppo::RandomStream random(2, seppo::Purpose::test);
  std::string text;
  for (int i = 0; i < words; ++i) text += std::string(kWords[random.below(10)]) + " ";
  return text;
}

// Scores every token of each window but its first; windows begin at `starts` and have `window` targets each.
Sums windows_of(const seppo::LanguageModel& model, const Tokens& tokens, const Tokens& starts, int window) {
  const seppo::Inference guard;
  Sums sums;
  for (const int start : starts) {
    const int end = std::min(start + window, static_cast<int>(tokens.size()) - 1);
    Ragged input;
    input.add(Tokens(tokens.begin() + start, tokens.begin() + end));
    const seppo::Tensor scores = model(input);
    for (int at = start; at < end; ++at)
      sums.add(row_of(scores, static_cast<std::size_t>(at - start)), tokens[static_cast<std::size_t>(at + 1)]);
  }
  return sums;
}

std::ptrdiff_t cut_of(const Tokens& tokens, double share) {
  return static_cast<std::ptrdiff_t>(share * static_cast<double>(tokens.size()));
}

// The rest of the text, behind the share that is trained on, is scored in consecutive windows.
Sums rest_of(const seppo::LanguageModel& model, const Tokens& tokens, double share, int window) {
  const Tokens validation(tokens.begin() + cut_of(tokens, share), tokens.end());
  Tokens starts;
  for (int at = 0; at + 1 < std::ssize(validation); at += window) starts.push_back(at);
  const Sums sums = windows_of(model, validation, starts, window);
  BOOST_CHECK_EQUAL(sums.count, std::ssize(validation) - 1);
  return sums;
}

// The first step trains on windows whose targets all lie in the first part of the text. Returns the sums over the rest.
Sums check_text_model(const Folder& folder, const Finished& r, const Tokens& tokens, double share, int window) {
  const auto saved = seppo::load_model<seppo::LanguageModel>(folder.path / "m/model.safetensors");
  const Tokens training(tokens.begin(), tokens.begin() + cut_of(tokens, share));
  const Fresh<seppo::LanguageModel> start(5, saved.model.config);
  const Tokens first = first_batch(training.size() - static_cast<std::size_t>(window), r);
  BOOST_CHECK_LT(*std::ranges::max_element(first) + window, std::ssize(training));
  const Sums of_first = windows_of(start.model, training, first, window);
  BOOST_CHECK_EQUAL(of_first.count, std::ssize(first) * window);
  check_near(r.steps[0]["loss"], of_first.loss());
  const Sums sums = rest_of(saved.model, tokens, share, window);
  check_near(r.summary["val_loss"], sums.loss());
  return sums;
}

}  // namespace

BOOST_AUTO_TEST_CASE(characters) {
  for (const char* share : {"0.9", "0.63"}) {
    const Folder folder("measures");
    const std::string text = prose(900);
    folder.write("t.txt", text);
    const Finished r =
        run_training(folder, {"charlm",   "train", "--data",        "t.txt", "--train-share", share, "--seed",   "5",
                              "--block",  "16",    "--d-model",     "16",    "--heads",       "2",   "--layers", "1",
                              "--epochs", "2",     "--epoch-steps", "15",    "--lr",          "0.01"},
                     "m");
    const std::set<char> known(text.begin(), text.end());
    Tokens tokens;
    for (const char c : text) tokens.push_back(static_cast<int>(std::distance(known.begin(), known.find(c))));
    const Sums sums = check_text_model(folder, r, tokens, std::stod(share), 16);
    check_near(r.summary["val_bits_per_character"], sums.loss() / std::numbers::ln2);
    check_evaluations<seppo::LanguageModel>(folder, r, "m", [&](const seppo::LanguageModel& model) {
      const double loss = rest_of(model, tokens, std::stod(share), 16).loss();
      return std::map<std::string, double>{{"val_loss", loss}, {"val_bits_per_character", loss / std::numbers::ln2}};
    });
    const Result eval =
        folder.run({"charlm", "eval", "--model", "m", "--data", "t.txt", "--train-share", share, "--json"});
    check_near(last_line(eval.out)["val_loss"], sums.loss());
  }
}

BOOST_AUTO_TEST_CASE(bytes) {
  const Folder folder("measures");
  const std::string text = "é" + prose(700);
  folder.write("t.txt", text);
  const Finished r = run_training(
      folder,
      {"llm",           "train", "--data",    "t.txt", "--train-share", "0.7",   "--seed",   "5", "--max-length", "24",
       "--window",      "12",    "--d-model", "16",    "--heads",       "2",     "--layers", "1", "--epochs",     "2",
       "--epoch-steps", "15",    "--lr",      "0.01",  "--bos",         "always"},
      "m");
  Tokens tokens{256};  // the end-of-text token also starts a text, as was asked for
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  const Sums sums = check_text_model(folder, r, tokens, 0.7, 12);
  check_near(r.summary["val_bits_per_byte"], sums.loss() / std::numbers::ln2);  // a token is a byte
  // As a text of its own, even its first byte is predicted. Perplexity is exp of the mean loss, not a mean of exps.
  folder.write("u.txt", text.substr(static_cast<std::size_t>(0.7 * static_cast<double>(tokens.size()))));
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const Tokens own = model.encode(read(folder.path / "u.txt"), seppo::Bos::always);
  BOOST_CHECK_EQUAL(own[0], 256);
  Tokens starts;
  for (int at = 0; at + 1 < std::ssize(own); at += 12) starts.push_back(at);
  const Sums of_own = windows_of(model.model, own, starts, 12);
  const auto eval = last_line(folder
                                  .run({"llm", "eval", "--model", "m", "--data", "u.txt", "--window", "12", "--stride",
                                        "12", "--json", "--bos", "always"})
                                  .out);
  check_near(eval["bits_per_byte"], of_own.nats / std::numbers::ln2 / static_cast<double>(own.size() - 1));
  check_near(eval["loss"], of_own.loss());
  check_near(eval["perplexity"], std::exp(of_own.loss()));
  BOOST_CHECK_EQUAL(eval["tokens"].get<std::size_t>(), own.size() - 1);
  BOOST_CHECK_EQUAL(eval["bytes"].get<std::size_t>(), own.size() - 1);
}

// Bits are per byte of the predicted text, however many tokens encode it; the same holds in fine-tuning.
BOOST_AUTO_TEST_CASE(tokens_of_several_bytes) {
  const Folder folder("measures");
  folder.write("t.txt", prose(900));
  fs::create_directory(folder.path / "k");
  folder.write("k/tok.bin", file_of({{" ", 0},
                                     {"t", 0},
                                     {"h", 0},
                                     {"e", 0},
                                     {"s", 0},
                                     {"o", 0},
                                     {"th", -1},
                                     {" th", -2},
                                     {"ee", -3},
                                     {"so", -4}}));
  const Words common{"--data",   "t.txt", "--train-share", "0.7", "--seed", "5",   "--window", "12",
                     "--epochs", "2",     "--epoch-steps", "15",  "--lr",   "0.01"};
  const auto with_common = [&](Words words) {
    words.insert(words.end(), common.begin(), common.end());
    return words;
  };
  const Finished r = run_training(folder,
                                  with_common({"llm", "train", "--tokenizer", "k", "--max-length", "24", "--d-model",
                                               "16", "--heads", "2", "--layers", "1"}),
                                  "m");
  const llm::Folder model = llm::open_folder(folder.path / "m");
  const Tokens tokens = model.encode(read(folder.path / "t.txt"));
  const Sums sums = check_text_model(folder, r, tokens, 0.7, 12);
  const Tokens validation(tokens.begin() + static_cast<std::ptrdiff_t>(0.7 * static_cast<double>(tokens.size())),
                          tokens.end());
  double bytes = 0;
  for (std::size_t i = 1; i < validation.size(); ++i)
    bytes += static_cast<double>(model.tokenizer.pieces[static_cast<std::size_t>(validation[i])].size());
  BOOST_CHECK_GT(bytes, 1.05 * static_cast<double>(validation.size()));
  check_near(r.summary["val_bits_per_byte"], sums.nats / std::numbers::ln2 / bytes);
  for (const Words& how : {Words{}, Words{"--lora", "1"}}) {
    Words command = with_common({"llm", "finetune", "--model", "m", "--overwrite"});
    command.insert(command.end(), how.begin(), how.end());
    const Finished further = run_training(folder, command, "f");
    BOOST_CHECK_EQUAL(fs::exists(folder.path / "f/adapter"), !how.empty());
    const llm::Folder tuned = llm::open_folder(folder.path / "f");
    Tokens starts;
    for (int at = 0; at + 1 < std::ssize(validation); at += 12) starts.push_back(at);
    const Sums after = windows_of(tuned.model, validation, starts, 12);
    check_near(further.summary["val_bits_per_byte"], after.nats / std::numbers::ln2 / bytes);
    check_near(further.summary["val_loss"], after.loss());
    BOOST_CHECK_LT(after.nats, sums.nats);
  }
}
