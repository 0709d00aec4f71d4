// What a training run writes and reports besides its model: once, about this run, and truthfully.
// needs: programs: all
#include "app/processors.h"
#include "app/training.h"
#include "support/matches.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>

using namespace test;
using seppo::Best;

namespace {

const Words kTrain{"reverse", "train", "--out", "m", "--d-model", "8", "--d-ff", "8", "--epoch-steps", "10"};

}  // namespace

// The higher score is better, or at equal scores the lower loss; a tie in both is not better.
BOOST_AUTO_TEST_CASE(the_best_is_above_all_others) {
  const Best none, low{1, 0.25, 2}, high{2, 0.5, 3}, better{3, 0.5, 1};
  const std::vector<Best> order{none, low, high, better};
  for (std::size_t a = 0; a < order.size(); ++a)
    for (std::size_t b = 0; b < order.size(); ++b) BOOST_CHECK_EQUAL(order[a].is_above(order[b]), a > b);
  BOOST_CHECK(!Best({7, 0.5, 3}).is_above(high));
}

BOOST_AUTO_TEST_CASE(threads_are_told) {
  const Folder folder;
  const auto told = [&](const Words& more) {
    const Result r = folder.run(with(with(kTrain, {"--max-steps", "1", "--overwrite"}), more));
    const auto said = matches(r.err, ", ([0-9]+) threads, about");
    BOOST_REQUIRE_MESSAGE(r.code == 0 && !said.empty(), r.err);
    return std::stoul(said[0][1]);
  };
  BOOST_CHECK_EQUAL(told({"--threads", "3"}), 3u);
  BOOST_CHECK_EQUAL(told({}), static_cast<unsigned long>(std::min(64, examples::available_processors())));
}

// config.json is written with the first model that is kept, and not again when others replace it.
BOOST_AUTO_TEST_CASE(the_config_is_written_once) {
  const Folder folder;
  folder.write("before", "");
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--epochs", "3", "--best", "last", "--log-format", "none"})).code, 0);
  const auto written = [&](const char* name) { return fs::last_write_time(folder.path / name); };
  BOOST_CHECK(written("before") < written("m/config.json"));
  BOOST_CHECK(written("m/config.json") < written("m/checkpoints/20.safetensors"));
  BOOST_CHECK(written("m/checkpoints/20.safetensors") < written("m/model.safetensors"));
}

// --dump-config prints what a run with these options has, also what it derives from them.
BOOST_AUTO_TEST_CASE(the_printed_config_is_that_of_the_run) {
  const Folder folder;
  folder.write("t", std::string(400, 'a') + "some text, and some more text");
  const Words brief{"--max-steps", "1", "--log-format", "none", "--overwrite", "--out", "m"};
  for (const Words& train :
       {Words{"charlm", "train", "--data", "t", "--d-model", "8", "--dropout", "0.25", "--max-length", "8"},
        Words{"odd_one", "train", "--d-model", "8", "--heads", "2"}, Words{"reverse", "train", "--d-model", "8"}}) {
    BOOST_REQUIRE_EQUAL(folder.run(with(train, brief)).code, 0);
    const Json run = Json::parse(read(folder.path / "m/config.json"));
    const Json printed = Json::parse(folder.run(with(with(train, brief), {"--dump-config"})).out);
    for (const char* part : {"model", "training"})
      for (const std::string& option : printed[part].keys())
        if (option != "vocabulary")  // that of the data
          BOOST_CHECK_MESSAGE(run[part][option] == printed[part][option], train[0] << " " << option);
  }
}

// What a file of options asks for is not left out because it does not suit another option's default.
BOOST_AUTO_TEST_CASE(a_shared_table_is_taken_from_a_file) {
  const Folder folder;
  for (const bool shares : {true, false}) {
    folder.write("options", std::string(R"({"data": {"tokens": "words"}, "model": {"share_embeddings": )") +
                                (shares ? "true}}" : "false}}"));
    const Result r = folder.run({"translate", "train", "--config", "options", "--dump-config"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    BOOST_CHECK_EQUAL(Json::parse(r.out)["model"]["share_embeddings"].get<bool>(), shares);
  }
}

// Texts have the preset for texts, wherever they are named.
BOOST_AUTO_TEST_CASE(the_preset_is_that_of_the_texts) {
  const Folder folder;
  folder.write("t", "a\nb\n");
  folder.write("options", R"({"data": {"src": "t", "tgt": "t"}})");
  const auto dumped = [&](const Words& more) {
    return folder.run(with({"translate", "train", "--dump-config"}, more));
  };
  const Result by_words = dumped({"--src", "t", "--tgt", "t"}), by_file = dumped({"--config", "options"});
  BOOST_CHECK_EQUAL(by_file.out, by_words.out);
  BOOST_CHECK_NE(by_file.out, dumped({}).out);
  BOOST_CHECK_EQUAL(by_file.code, 0);
}

// After a resume, the reported speed is that of this run: its steps divided by its own seconds.
BOOST_AUTO_TEST_CASE(the_pace_is_that_of_this_run, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder;
  const Words cut = with(kTrain, {"--epochs", "100", "--max-steps", "600", "--eval-interval", "60"});
  BOOST_REQUIRE_EQUAL(folder.run(with(cut, {"--log-format", "none"})).code, 0);
  const Result r = folder.run(
      {"reverse", "train", "--resume", "m", "--max-steps", "610", "--log-interval", "10", "--log-format", "plain"});
  const auto pace = matches(r.err, "step +610/1000.* ([0-9]+) steps/s");
  BOOST_REQUIRE_MESSAGE(r.code == 0 && !pace.empty(), r.err);
  std::map<int, double> seconds;  // since the start of the first run
  for (const Json& line : json_lines(folder.path / "m/metrics.jsonl"))
    if (line.contains("seconds")) seconds[line["step"].get<int>()] = line["seconds"].get<double>();
  const double steps = std::stod(pace[0][1]) * (seconds.at(610) - seconds.at(600));
  BOOST_CHECK_MESSAGE(steps > 5 && steps < 60, r.err << steps);
}

// The time that is left is that to the end of this run, which may come before all steps of the schedule are done.
BOOST_AUTO_TEST_CASE(the_time_left_ends_with_the_run) {
  const Folder folder;
  const Result r = folder.run(with(kTrain, {"--epochs", "1000000", "--max-steps", "10", "--log-interval", "10"}));
  BOOST_CHECK_MESSAGE(r.code == 0 && !matches(r.err, "step +10/10000000 .* eta 00:00\n").empty(), r.err);
}

// A deleted model is written again: any model is better than none.
BOOST_AUTO_TEST_CASE(a_model_that_is_gone_is_made_again) {
  const Folder folder;
  const Words cut = with(kTrain, {"--epochs", "3", "--max-steps", "10", "--lr", "1e-12", "--log-format", "none"});
  BOOST_REQUIRE_EQUAL(folder.run(cut).code, 0);
  fs::remove(folder.path / "m/model.safetensors");
  const Result r = folder.run({"reverse", "train", "--resume", "m", "--max-steps", "0", "--log-format", "none"});
  BOOST_CHECK_MESSAGE(r.code == 0 && fs::exists(folder.path / "m/model.safetensors"), r.err);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_listed_is_an_error) {
  const Folder folder;
  fs::create_directory(folder.path / "m");
  fs::create_directory_symlink("last", folder.path / "m/last");
  check_refused(folder, kTrain, 74, "m/last: cannot be listed: ");
}

// A table of only zeros has a picture, too, which is blank.
BOOST_AUTO_TEST_CASE(pictures_of_zeros) {
  const Folder folder;
  const Result r = folder.run({"positions", "--length", "1", "--width", "2", "--svg", "p"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_EQUAL(r.out.find("nan"), r.out.npos);
  std::size_t blank = 0;
  for (const auto& entry : fs::directory_iterator(folder.path / "p")) {
    const std::string svg = read(entry.path());
    BOOST_CHECK_MESSAGE(svg.find("nan") == svg.npos, entry.path());
    blank += svg.find(">0</text>\n</svg>") != svg.npos;
  }
  BOOST_CHECK_GT(blank, 0);
}

// Asking for help, or for the options of a run, is not a mistake.
BOOST_AUTO_TEST_CASE(help_is_a_success) {
  const Folder folder;
  folder.write("t", "some text, and some more text");
  const std::map<std::string, Words> commands{
      {"addsub", {"train", "eval", "predict", "data"}},
      {"reverse", {"train", "eval", "predict", "data"}},
      {"count", {"train", "eval", "predict", "data"}},
      {"odd_one", {"train", "eval", "predict", "data"}},
      {"charlm", {"train", "eval", "sample", "data"}},
      {"translate", {"train", "eval", "predict", "data"}},
      {"llm", {"train", "eval", "generate", "chat", "finetune", "merge", "data"}},
      {"seppo", {"inspect"}},
      {"positions", {}},
      {"attention_lab", {}},
      {"blocks_lab", {}}};
  for (const auto& [program, names] : commands) {
    const std::string general = folder.run({program, "--help"}).out;
    BOOST_CHECK_MESSAGE(general.find("usage: " + program) != general.npos, program << ": " << general);
    for (const std::string& name : names) {
      const Result r = folder.run({program, name, "--help"});
      BOOST_CHECK_MESSAGE(r.code == 0 && r.err.empty() && r.out.starts_with("usage: " + program + " " + name),
                          program << " " << name << ": " << r.code << r.err << r.out.substr(0, 100));
      BOOST_CHECK_MESSAGE(general.find("\n  " + name + " ") != general.npos, general);
      const std::size_t section = r.out.find("\nGeneral:\n"), version = r.out.find("\n  --version  ");
      BOOST_CHECK_MESSAGE(section < version && version < r.out.find("\n  -h, --help  "), r.out);
      if (name != "train") continue;
      const std::size_t config = r.out.find("\n  --config PATH"), last = r.out.rfind(":\n", version);
      BOOST_CHECK_MESSAGE(section < config && config < version && last < config, r.out);
      const Result dumped = folder.run({program, "train", "--dump-config"});
      BOOST_CHECK_MESSAGE(dumped.code == 0 || dumped.err.find("--data") != dumped.err.npos, program << dumped.err);
    }
    BOOST_CHECK_EQUAL(folder.files(), 1u);
  }
}

// A final model that is kept without an evaluation sets the best one aside for a later resume.
BOOST_AUTO_TEST_CASE(the_best_is_set_aside_at_the_end) {
  const Folder folder;
  const Words train = with(kTrain, {"--epochs", "3", "--best", "last", "--log-format", "none"});
  BOOST_REQUIRE_EQUAL(folder.run(with(train, {"--max-steps", "10"})).code, 0);
  const auto values = [&](const char* name) {  // without the header, which contains the run's options
    const std::string file = read(folder.path / name);
    std::uint64_t header = 0;
    if (file.size() > 8) std::memcpy(&header, file.data(), 8);
    return file.substr(std::min<std::size_t>(8 + header, file.size()));
  };
  const std::string at_10 = values("m/model.safetensors");
  BOOST_REQUIRE(!at_10.empty());
  BOOST_CHECK(!fs::exists(folder.path / "m/checkpoints/best.safetensors"));
  BOOST_REQUIRE_EQUAL(folder.run(with(train, {"--max-steps", "15", "--overwrite"})).code, 0);
  BOOST_CHECK(values("m/checkpoints/best.safetensors") == at_10);
  BOOST_CHECK(values("m/model.safetensors") != at_10);
  const Result r = folder.run({"reverse", "train", "--resume", "m", "--max-steps", "16", "--log-format", "none"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK(values("m/checkpoints/best.safetensors") == at_10);
}

// A run that finds no better model keeps the previous run's, but stores its own options with it and in config.json.
BOOST_AUTO_TEST_CASE(a_model_that_stays_says_the_options_of_now) {
  const Folder folder;
  const Words train = with(kTrain, {"--epochs", "3", "--lr", "1e-12", "--log-format", "none", "--max-steps", "15"});
  BOOST_REQUIRE_EQUAL(folder.run(train).code, 0);
  const auto told = [&] {
    const auto config = Json::parse(read(folder.path / "m/config.json"));
    const std::string model = read(folder.path / "m/model.safetensors");
    const std::string steps = R"(\"max_steps\":)" + config["training"]["max_steps"].dump();
    BOOST_CHECK_NE(model.find(steps), model.npos);
    return config["training"]["max_steps"].get<int>();
  };
  BOOST_CHECK_EQUAL(told(), 15);
  const Result r = folder.run({"reverse", "train", "--resume", "m", "--max-steps", "30", "--log-format", "none"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_EQUAL(told(), 30);
  BOOST_CHECK(!fs::exists(folder.path / "m/checkpoints/best.safetensors"));
}

// The mean of the last models is kept if it is better than all of them, and this is reported.
BOOST_AUTO_TEST_CASE(a_mean_that_is_kept_is_told) {
  const Folder folder;
  std::set<bool> outcomes;
  for (const char* lr : {"3", "1e-5"}) {
    const Result r = folder.run(with(kTrain, {"--epochs", "4", "--average", "3", "--best", "loss", "--overwrite",
                                              "--lr", lr, "--schedule", "const"}));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    std::vector<double> losses;
    for (const Json& line : json_lines(folder.path / "m/metrics.jsonl")) {
      if (!line.contains("val_loss")) continue;
      losses.push_back(line["val_loss"].get<double>());
      BOOST_CHECK_EQUAL(line.contains("mean_of") ? line["mean_of"].get<int>() : 1, losses.size() == 5 ? 3 : 1);
    }
    BOOST_REQUIRE_EQUAL(losses.size(), 5u);  // the last is the mean's
    BOOST_CHECK_NE(r.err.find("\nmean of 3 | val_loss "), r.err.npos);
    const bool is_kept = losses.back() < *std::min_element(losses.begin(), losses.end() - 1);
    BOOST_CHECK_EQUAL(is_kept, r.err.find("the mean of the last 3 models is better, and kept\n") != r.err.npos);
    outcomes.insert(is_kept);
  }
  BOOST_CHECK_EQUAL(outcomes.size(), 2u);
}

// --json adds one line: an object with the same figures.
BOOST_AUTO_TEST_CASE(json_is_printed_when_asked_for) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 60; ++i) text += "a b\tb a\nb c\tc b\n";
  folder.write("t", text);
  const Words tiny = words("--d-model 8 --heads 2 --max-steps 2 --epochs 1 --log-format none");
  const std::vector<std::tuple<std::string, Words, Words>> programs{
      {"addsub", {}, {}},
      {"reverse", {}, {}},
      {"charlm", words("--data t --block 8 --layers 1"), {"--data", "t"}},
      {"llm", words("--data t --max-length 8 --layers 1"), {"--data", "t"}},
      {"translate", words("--pairs t --validation 20"), {"--pairs", "t"}}};
  for (const auto& [program, training, evaluation] : programs) {
    const Result trained = folder.run(with(with({program, "train", "--out", program}, training), tiny));
    BOOST_REQUIRE_MESSAGE(trained.code == 0, trained.err);
    const Words eval = with({program, "eval", "--model", program + (program == "llm" ? "/hf" : "")}, evaluation);
    const Result plain = folder.run(eval), more = folder.run(with(eval, {"--json"}));
    BOOST_REQUIRE_MESSAGE(plain.code == 0 && more.code == 0, plain.err << more.err);
    BOOST_CHECK_MESSAGE(plain.out.find('{') == plain.out.npos && !plain.out.empty(), plain.out);
    BOOST_CHECK_MESSAGE(more.out.starts_with(plain.out), more.out << " does not begin with " << plain.out);
    BOOST_CHECK(more.out.substr(plain.out.size()) == last_line(more.out).dump() + "\n" &&
                last_line(more.out).is_object());
    BOOST_CHECK_MESSAGE(trained.out.find('{') == trained.out.npos, trained.out);
  }
}

// `llm train` makes the model that its options describe; options not given follow from the others.
BOOST_AUTO_TEST_CASE(options_of_a_model_are_its_config) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a b c ";
  folder.write("t", text);
  const auto config = [&](const Words& more) {
    const Words train = words(
        "llm train --data t --d-model 16 --heads 4 --layers 1 --max-length 8 --max-steps 1 --epochs 1 --out m "
        "--overwrite "
        "--log-format none");
    const Result r = folder.run(with(train, more));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return Json::parse(read(folder.path / "m/hf/config.json"));
  };
  const auto plain = config({}), grouped = config({"--kv-heads", "2", "--d-ff", "24"}),
             gpt2 = config({"--shape", "gpt2"}), wide = config({"--shape", "gpt2", "--d-ff", "24"});
  BOOST_CHECK(plain["num_attention_heads"] == 4 && plain["num_key_value_heads"] == 4);
  BOOST_CHECK_EQUAL(plain["intermediate_size"], 48);  // 8/3 of 16, rounded up to a multiple of eight
  BOOST_CHECK(grouped["num_key_value_heads"] == 2 && grouped["intermediate_size"] == 24);
  BOOST_CHECK(gpt2["n_head"] == 4 && gpt2["n_inner"] == 64 && gpt2["n_positions"] == 8 && gpt2["n_layer"] == 1);
  BOOST_CHECK_EQUAL(wide["n_inner"], 24);
}

// A run that goes on elsewhere goes on from its own checkpoint, not from one that an earlier run left there.
BOOST_AUTO_TEST_CASE(a_run_elsewhere_replaces_the_earlier_one_there) {
  const Folder folder;
  const auto train = [&](const char* out, const char* lr, const char* steps) {
    const Result r =
        folder.run({"reverse", "train", "--out", out, "--d-model", "8", "--d-ff", "8", "--lr", lr, "--max-steps", steps,
                    "--epoch-steps", "10", "--average", "3", "--log-format", "none"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  };
  train("mine", "0.001", "15");
  train("whole", "0.001", "20");
  train("earlier", "0.01", "45");
  folder.write("earlier/report.html", "of the earlier run");
  const Result r = folder.run({"reverse", "train", "--resume", "mine", "--out", "earlier", "--overwrite", "--max-steps",
                               "20", "--log-format", "none"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_MESSAGE(r.out.find("\n20 steps") != r.out.npos, r.out);
  for (const char* name : {"checkpoints/20.safetensors", "model.safetensors"})
    BOOST_CHECK_MESSAGE(read(folder.path / "earlier" / name) == read(folder.path / "whole" / name), name);
  for (const char* left : {"checkpoints/45.safetensors", "last/40.safetensors", "report.html"})
    BOOST_CHECK_MESSAGE(!fs::exists(folder.path / "earlier" / left), left);
}

// What a message suggests can be typed.
BOOST_AUTO_TEST_CASE(a_folder_is_named_as_in_a_shell) {
  const Folder folder;
  const Words train{"reverse", "train", "--max-steps", "1", "--log-format", "none", "--out", "my run"};
  BOOST_REQUIRE_EQUAL(folder.run(train).code, 0);
  check_refused(folder, train, 2, "in 'my run'; --overwrite replaces it, --resume 'my run' goes on with it");
}

// A copy of a folder within itself would have no end.
BOOST_AUTO_TEST_CASE(a_run_does_not_go_on_within_its_own_folder) {
  const Folder folder;
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--max-steps", "1", "--log-format", "none"})).code, 0);
  for (const char* out : {"m/inner", "m/a/b", "./m/../m/inner"})
    check_refused(folder, {"reverse", "train", "--resume", "m", "--out", out}, 2, "is within");
  BOOST_CHECK(!fs::exists(folder.path / "m/inner") && !fs::exists(folder.path / "m/a"));
}

// What an earlier run left in a folder is not taken for the best model of the run that replaces it.
BOOST_AUTO_TEST_CASE(the_model_of_a_replaced_run_is_not_set_aside) {
  const Folder folder;
  const Words quiet = with(kTrain, {"--log-format", "none"});
  BOOST_REQUIRE_EQUAL(folder.run(with(quiet, {"--epochs", "1", "--report"})).code, 0);
  BOOST_CHECK(fs::exists(folder.path / "m/report.html"));
  BOOST_REQUIRE_EQUAL(folder.run(with(quiet, {"--seed", "5", "--max-steps", "3", "--overwrite"})).code, 0);
  BOOST_CHECK(!fs::exists(folder.path / "m/checkpoints/best.safetensors"));
  BOOST_CHECK(!fs::exists(folder.path / "m/report.html"));
}
