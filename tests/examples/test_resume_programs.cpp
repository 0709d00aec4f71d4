// Nothing is lost: interrupted or killed runs resume, folders are not overwritten, and damage is noticed.
// needs: programs: all
#include "support/program.h"
#include "support/stored.h"

#include <seppo/autograd/core/random.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <signal.h>
#include <sys/resource.h>
#include <chrono>
#include <map>
#include <set>
#include <thread>

using namespace test;

namespace {

// A small training run of each program with everything that has state: dropout, a schedule, epochs cut midway.
const std::map<std::string, Words> kTrainings{
    {"addsub",
     {"--d-model", "8", "--heads", "2", "--d-ff", "8", "--enc-layers", "1", "--dec-layers", "1", "--dropout", "0.2",
      "--warmup-steps", "9", "--epoch-steps", "7", "--eval-interval", "2"}},
    {"reverse",
     {"--d-model", "8", "--dropout", "0.1", "--epoch-steps", "9", "--schedule", "linear", "--warmup-steps", "5",
      "--batch-size", "16"}},
    {"count", {"--d-model", "8", "--heads", "2", "--epoch-steps", "11", "--batch-size", "16", "--best", "loss"}},
    {"odd_one",
     {"--d-model", "8", "--heads", "2", "--epoch-steps", "10", "--batch-size", "8", "--schedule", "noam",
      "--warmup-steps", "8"}},
    {"charlm",
     {"--data", "text", "--d-model", "8", "--heads", "2", "--layers", "1", "--block", "8", "--dropout", "0.1",
      "--epoch-steps", "8", "--warmup-steps", "4"}},
    {"llm",
     {"--data", "text", "--d-model", "8", "--heads", "2", "--layers", "1", "--max-length", "8", "--dropout", "0.1",
      "--epoch-steps", "8", "--warmup-steps", "4"}},
    {"translate", {"--pairs",      "pairs", "--validation", "7", "--d-model",      "8", "--heads",      "2",
                   "--d-ff",       "8",     "--enc-layers", "1", "--dec-layers",   "1", "--max-length", "12",
                   "--batch-size", "4",     "--average",    "3", "--warmup-steps", "5", "--dropout",    "0.1"}}};
constexpr int kSteps = 40;

void write_data(const Folder& folder) {
  seppo::RandomStream random(5, seppo::Purpose::test);
  std::string text, pairs;
  for (int i = 0; i < 3000; ++i) text += i % 17 == 0 ? '\n' : static_cast<char>('a' + random.below(7));
  for (int i = 0; i < 60; ++i) {  // of different lengths, so that batches group them
    std::string source, target;
    for (unsigned n = 1 + random.below(8); n > 0; --n) {
      const char word = static_cast<char>('a' + random.below(9));
      source += std::string(source.empty() ? "" : " ") + word;
      target.insert(0, std::string(1, word) + (target.empty() ? "" : " "));
    }
    pairs += source + "\t" + target + "\n";
  }
  folder.write("text", text);
  folder.write("pairs", pairs);
}

Words train(const std::string& program, const Words& more) {
  Words all{program, "train", "--epochs", "6", "--log-format", "none"};
  const Words& own = kTrainings.at(program);
  all.insert(all.end(), own.begin(), own.end());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Words resume(const std::string& program, const std::string& folder, const Words& more = {}) {
  Words all{program, "train", "--resume", folder};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string state_after(const Folder& folder, const std::string& out, int step) {
  return read(folder.path / out / "checkpoints" / (std::to_string(step) + ".safetensors"));
}

// The steps in metrics.jsonl never decrease, and no line appears twice.
void check_metrics(const Folder& folder, const std::string& out) {
  std::ifstream file(folder.path / out / "metrics.jsonl");
  int last = 0;
  std::set<std::string> seen;
  for (std::string text; std::getline(file, text);) {
    BOOST_CHECK_MESSAGE(seen.insert(text).second, "twice: " << text);
    const int step = nlohmann::json::parse(text)["step"];
    BOOST_CHECK_MESSAGE(step >= last, text);
    last = step;
  }
  BOOST_CHECK_GE(last, kSteps);
}

// A run killed during its first save leaves at most a temporary file.
bool has_checkpoint(const fs::path& folder) {
  return fs::exists(folder) &&
         std::any_of(fs::directory_iterator(folder), fs::directory_iterator(),
                     [](const auto& entry) { return entry.path().extension() == ".safetensors"; });
}

std::string steps(int n) { return std::to_string(n); }

}  // namespace

// K batches accumulated into one step give the same bytes as one batch K times as large in K times as many shards:
// parameters, moments, losses.
BOOST_AUTO_TEST_CASE(accumulated_batches_are_one_large_batch) {
  const Folder folder("accumulate");
  write_data(folder);
  for (const char* program : {"count", "translate"}) {  // translate's batches group similar lengths
    const auto run = [&](const std::string& batch_size, const Words& more) {
      Words words = train(program, {"--max-steps", "6"});
      std::ranges::find(words, "--batch-size")[1] = batch_size;
      words.insert(words.end(), more.begin(), more.end());
      const Result r = folder.run(words);
      BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
      std::vector<std::vector<std::byte>> bytes;
      for (const StoredTensor& tensor : read_stored(folder.path / more.back() / "checkpoints/6.safetensors").tensors)
        bytes.push_back(tensor.bytes);
      return bytes;
    };
    const auto large = run("12", {"--shards", "6", "--out", "large"});
    for (const char* threads : {"1", "2", "3"})
      BOOST_CHECK(large == run("4", {"--shards", "2", "--accumulate", "3", "--threads", threads, "--overwrite", "--out",
                                     "rounds"}));
    BOOST_CHECK(large != run("12", {"--shards", "2", "--overwrite", "--out", "rounds"}));
    fs::remove_all(folder.path / "large");
  }
}

// Stopped anywhere and resumed with other thread counts, a run ends with the same checkpoint and model, byte for byte.
BOOST_AUTO_TEST_CASE(every_program_goes_on_as_if_it_had_never_stopped) {
  const Folder folder("resume");
  write_data(folder);
  seppo::RandomStream random(1, seppo::Purpose::test);
  for (const auto& [program, options] : kTrainings) {
    const Result whole = folder.run(train(program, {"--max-steps", steps(kSteps), "--out", program}));
    BOOST_REQUIRE_MESSAGE(whole.code == 0, program << whole.err);
    for (int trial = 0; trial < (is_in_memcheck() ? 1 : 3); ++trial) {
      const int first = 1 + static_cast<int>(random.below(kSteps - 2)),
                second = first + static_cast<int>(random.below(static_cast<unsigned>(kSteps - first)));
      const std::string out = program + steps(trial);
      BOOST_TEST_CONTEXT(program << " cut after " << first << " and " << second) {
        BOOST_CHECK_EQUAL(folder.run(train(program, {"--max-steps", steps(first), "--out", out})).code, 0);
        for (const int most : {second, kSteps}) {
          const Result r =
              folder.run(resume(program, out, {"--max-steps", steps(most), "--threads", steps(1 + trial)}));
          BOOST_CHECK_MESSAGE(r.code == 0, r.err);
        }
        BOOST_CHECK(state_after(folder, program, kSteps) == state_after(folder, out, kSteps));
        BOOST_CHECK(read(folder.path / program / "model.safetensors") == read(folder.path / out / "model.safetensors"));
        BOOST_CHECK(read(folder.path / program / "config.json") == read(folder.path / out / "config.json"));
        check_metrics(folder, out);
      }
    }
  }
}

// The checkpoint records that the evaluation is still due.
BOOST_AUTO_TEST_CASE(an_evaluation_is_cut_short) {
  const Folder folder("resume");
  write_data(folder);
  std::string text = read(folder.path / "text");
  for (int i = 0; i < (is_in_memcheck() ? 2 : 9); ++i) text += text;
  folder.write("text", text);  // 1.5 million characters
  const auto words = [](const std::string& out) {
    return Words{"charlm",       "train", "--data",    "text", "--train-share", "0.5", "--d-model",      "32",
                 "--layers",     "2",     "--epochs",  "2",    "--epoch-steps", "3",   "--log-interval", "1",
                 "--log-format", "plain", "--threads", "1",    "--out",         out};
  };
  const pid_t child = folder.start(words("cut"));
  while (read(folder.path.string() + ".err").find("step      3/6") == std::string::npos) ::usleep(1000);
  ::kill(child, SIGINT);
  const Result r = folder.finish(child);
  BOOST_CHECK_EQUAL(r.code, 130);
  BOOST_CHECK_MESSAGE(r.err.find("interrupted after step 3; saved") != std::string::npos, r.err);
  BOOST_CHECK_MESSAGE(r.err.find("val_loss") == std::string::npos, r.err);
  BOOST_CHECK_EQUAL(folder.run(resume("charlm", "cut")).code, 0);
  BOOST_CHECK_EQUAL(folder.run(words("whole")).code, 0);
  BOOST_CHECK(state_after(folder, "cut", 6) == state_after(folder, "whole", 6));
  BOOST_CHECK(read(folder.path / "cut/model.safetensors") == read(folder.path / "whole/model.safetensors"));
  const std::string metrics = read(folder.path / "cut/metrics.jsonl");
  const std::size_t first = metrics.find("val_loss");
  BOOST_CHECK(first != std::string::npos && metrics.find("val_loss", first + 1) != std::string::npos);
}

// Killed at random moments, or asked to stop, with checkpoints every few steps.
BOOST_AUTO_TEST_CASE(a_killed_training_goes_on) {
  const Folder folder("resume");
  write_data(folder);
  const int last = is_in_memcheck() ? 40 : 400;
  const Words limit{"--max-steps", steps(last), "--epochs", "60", "--save-interval", "3", "--out"};
  seppo::RandomStream random(2, seppo::Purpose::test);
  for (const std::string program : {"addsub", "translate"}) {
    const auto start = [&](const std::string& out) {
      Words words = train(program, limit);
      words.erase(std::find(words.begin(), words.end(), "--epochs"), std::find(words.begin(), words.end(), "6") + 1);
      words.push_back(out);
      return words;
    };
    BOOST_REQUIRE_EQUAL(folder.run(start(program)).code, 0);
    for (const int signal : {SIGKILL, SIGTERM}) {
      const std::string out = program + steps(signal);
      Words command = start(out);
      for (int kills = 0; kills < (is_in_memcheck() ? 2 : 10); ++kills) {
        const pid_t child = folder.start(command);
        std::this_thread::sleep_for(std::chrono::milliseconds((20 + random.below(60)) * (is_in_memcheck() ? 50 : 1)));
        ::kill(child, signal);
        const Result r = folder.finish(child);
        BOOST_CHECK_MESSAGE(r.code == 0 || r.code == 128 + signal, r.code << r.err);
        const bool has_begun = has_checkpoint(folder.path / out / "checkpoints");
        command = has_begun ? resume(program, out, {"--save-interval", "3"}) : start(out);
        if (!has_begun) command.push_back("--overwrite");
      }
      const Result r = folder.run(command);
      BOOST_CHECK_MESSAGE(r.code == 0, r.err);
      BOOST_CHECK(state_after(folder, program, last) == state_after(folder, out, last));
      for (const auto& entry : fs::recursive_directory_iterator(folder.path / out))
        BOOST_CHECK_MESSAGE(entry.path().string().find(".tmp-") == std::string::npos, entry.path());
      check_metrics(folder, out);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_go_on_is_refused) {
  const Folder folder("resume");
  write_data(folder);
  BOOST_REQUIRE_EQUAL(
      folder.run(train("charlm", {"--max-steps", "20", "--keep", "2", "--save-interval", "5", "--out", "m"})).code, 0);
  folder.write("c.json", "{}");
  for (const auto& [options, part] : {std::pair{Words{"--lr", "0.1"}, "--lr: cannot be given with --resume"},
                                      {{"--config", "c.json"}, "--config: cannot be given with --resume"},
                                      {{"--seed", "1"}, "--seed"},
                                      {{"--max-steps", "-1"}, "--max-steps"}})
    check_refused(folder, resume("charlm", "m", options), 2, part);
  check_refused(folder, resume("charlm", "nowhere"), 2, "--resume: there is no checkpoint in 'nowhere'");
  check_refused(folder, resume("count", "m"), 2, "is not of count");
  check_refused(folder, train("charlm", {"--out", "m"}), 2, "--overwrite");

  // Damage is detected and reported, and an older checkpoint is used instead.
  const fs::path newest = folder.path / "m/checkpoints/20.safetensors";
  std::string content = read(newest);
  const std::string good = content;
  content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 4);
  std::ofstream(newest, std::ios::binary) << content;
  const Result r = folder.run(resume("charlm", "m"));
  BOOST_CHECK_MESSAGE(r.code == 0 && r.err.find("passed over") != std::string::npos &&
                          r.err.find("goes on after step 16") != std::string::npos,
                      r.err);
  BOOST_CHECK(read(newest) == good);

  // An undamaged file that does not hold the state of a training run is refused.
  const Stored stored = read_stored(newest);
  const std::string key = "seppo.run";
  const nlohmann::json state = nlohmann::json::parse(stored.metadata.at(key));
  for (const auto& [part, value] : std::multimap<std::string, nlohmann::json>{
           {"data", nullptr}, {"data", 1}, {"best", "x"}, {"best", 1}, {"best", nlohmann::json::object()}}) {
    for (const bool is_gone : {true, false}) {
      nlohmann::json changed = state;
      is_gone ? void(changed.erase(part)) : void(changed[part] = value);
      Stored other = stored;
      other.metadata[key] = changed.dump();
      write_stored(newest, other);
      const Result refused = folder.run(resume("charlm", "m"));
      BOOST_CHECK_MESSAGE(refused.code == 1 && refused.err.find("is not the state of a training") != std::string::npos,
                          changed << refused.err);
    }
  }
  std::ofstream(newest, std::ios::binary) << good;

  // Resuming with other data is refused.
  std::ofstream(folder.path / "text", std::ios::app) << "abc";
  const Result other = folder.run(resume("charlm", "m", {"--max-steps", "30"}));
  BOOST_CHECK_MESSAGE(
      other.code == 1 && other.err.find("the data have changed: their digest was ") != std::string::npos, other.err);
  BOOST_CHECK(read(newest) == good);
}

// A folder has one writer; an earlier model survives a failing run, and temporary files of killed runs are removed.
BOOST_AUTO_TEST_CASE(a_folder_belongs_to_one_training) {
  const Folder folder("resume");
  write_data(folder);
  const pid_t child = folder.start({"reverse", "train", "--epochs", "100000", "--eval-interval", "1000", "--out", "m"});
  for (int i = 0; i < 3000 && !fs::exists(folder.path / "m/metrics.jsonl"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Folder beside("resume-beside");
  const Result second = beside.run({"reverse", "train", "--out", (folder.path / "m").string()});
  BOOST_CHECK_MESSAGE(second.code == 74 && second.err.find("another training") != std::string::npos, second.err);
  ::kill(child, SIGINT);
  BOOST_CHECK_EQUAL(folder.finish(child).code, 130);

  BOOST_REQUIRE_EQUAL(folder.run(train("addsub", {"--max-steps", "30", "--out", "a"})).code, 0);
  const std::string model = read(folder.path / "a/model.safetensors");
  const Result diverged =
      folder.run({"addsub",   "train",       "--lr",  "100",        "--schedule",  "const",          "--warmup-steps",
                  "0",        "--clip-norm", "0",     "--adam-eps", "1e-30",       "--weight-decay", "100",
                  "--epochs", "1",           "--out", "a",          "--overwrite", "--log-format",   "none"});
  BOOST_CHECK_MESSAGE(diverged.code == 1, diverged.code << diverged.err);
  BOOST_CHECK(read(folder.path / "a/model.safetensors") == model);

  for (const char* left : {"model.safetensors.tmp-0123456789abcdef", "checkpoints/9.safetensors.tmp-fedcba9876543210"})
    std::ofstream(folder.path / "a" / left) << "x";
  BOOST_REQUIRE_EQUAL(folder.run(train("addsub", {"--max-steps", "30", "--out", "a", "--overwrite"})).code, 0);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path / "a"))
    BOOST_CHECK_MESSAGE(entry.path().string().find(".tmp-") == std::string::npos, entry.path());
  BOOST_CHECK(read(folder.path / "a/model.safetensors") == model);
}

// The model with the best evaluation is kept, even if the last one is worse.
BOOST_AUTO_TEST_CASE(the_best_model_is_kept) {
  const Folder folder("resume");
  const Words common{"reverse",        "train", "--epochs",     "8",    "--epoch-steps", "5",
                     "--batch-size",   "16",    "--lr",         "0.1",  "--schedule",    "const",
                     "--warmup-steps", "0",     "--log-format", "none", "--best"};
  std::map<std::string, double> kept;
  for (const std::string best : {"loss", "last"}) {
    Words words = common;
    words.insert(words.end(), {best, "--out", best, "--json"});
    const Result r = folder.run(words);
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    double lowest = 1e9, last = 0;
    std::ifstream file(folder.path / best / "metrics.jsonl");
    for (std::string text; std::getline(file, text);)
      if (const auto line = nlohmann::json::parse(text); line.contains("val_loss")) {
        last = line["val_loss"];
        lowest = std::min(lowest, last);
      }
    BOOST_REQUIRE_LT(lowest, last);
    BOOST_CHECK_EQUAL(last_line(r.out)["val_loss"].get<double>(), best == "loss" ? lowest : last);
    const Result again = folder.run({"reverse", "eval", "--model", best, "--json"});
    BOOST_CHECK_EQUAL(last_line(again.out)["val_loss"].get<double>(), best == "loss" ? lowest : last);
  }
}

// A file-size limit, like a full disk, ends training with exit code 74 and leaves the previous checkpoint intact.
BOOST_AUTO_TEST_CASE(a_failed_save_leaves_the_one_before) {
  const Folder folder("resume");
  BOOST_REQUIRE_EQUAL(folder.run(train("addsub", {"--max-steps", "30", "--out", "a"})).code, 0);
  const std::string before = state_after(folder, "a", 30);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(folder.run(resume("addsub", "a", {"--max-steps", "40"})).code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_CHECK_EQUAL(WEXITSTATUS(status), 74);
  BOOST_CHECK(state_after(folder, "a", 30) == before);
  BOOST_CHECK_EQUAL(folder.run(resume("addsub", "a", {"--max-steps", "40"})).code, 0);
}

// With another --out, the resumed folder remains unchanged, and the new one ends as if there had been no interruption.
BOOST_AUTO_TEST_CASE(a_training_goes_on_elsewhere) {
  const Folder folder("resume");
  write_data(folder);
  const auto content = [&](const char* name) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path / name))
      if (entry.is_regular_file()) files[fs::relative(entry.path(), folder.path / name).string()] = read(entry.path());
    return files;
  };
  const std::string limit = std::to_string(kSteps);
  BOOST_REQUIRE_EQUAL(folder.run(train("reverse", {"--max-steps", limit, "--out", "whole"})).code, 0);
  BOOST_REQUIRE_EQUAL(folder.run(train("reverse", {"--max-steps", "13", "--out", "cut"})).code, 0);
  const auto before = content("cut");
  for (const Words& more : {Words{}, {"--overwrite"}}) {
    Words words = resume("reverse", "cut", {"--max-steps", limit, "--out", "elsewhere"});
    words.insert(words.end(), more.begin(), more.end());
    const Result r = folder.run(words);
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    BOOST_CHECK(content("cut") == before);
    BOOST_CHECK(state_after(folder, "elsewhere", kSteps) == state_after(folder, "whole", kSteps));
    BOOST_CHECK(content("elsewhere").at("model.safetensors") == content("whole").at("model.safetensors"));
    check_metrics(folder, "elsewhere");
    BOOST_CHECK(content("elsewhere").at("metrics.jsonl").starts_with(before.at("metrics.jsonl").substr(0, 40)));
  }
  // Resuming a finished run does not rewrite its checkpoint.
  const fs::path last = folder.path / "whole/checkpoints" / (limit + ".safetensors");
  const auto written = fs::last_write_time(last);
  BOOST_CHECK_EQUAL(folder.run(resume("reverse", "whole", {"--max-steps", limit})).code, 0);
  BOOST_CHECK(fs::last_write_time(last) == written);
  check_refused(folder, resume("reverse", "cut", {"--out", "elsewhere"}), 2, "an earlier training is in 'elsewhere'");
}
