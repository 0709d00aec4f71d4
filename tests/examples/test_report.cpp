// The numbers on the report page: those in metrics.jsonl, and the answers of the kept model.
// needs: programs: all addsub
#include "addsub/model.h"
#include "reverse/model.h"
#include "support/measures.h"

#include <seppo/autograd/ops.h>
#include <seppo/autograd/tools/attention_recorder.h>
#include <seppo/models/language_model.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <set>

using namespace test;
using nlohmann::json;
using seppo::Ragged;

namespace {

json data_of(const fs::path& page) {
  const std::string text = read(page), open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t begin = text.find(open) + open.size();
  return json::parse(text.substr(begin, text.find("</script>", begin) - begin));
}

json numbers_of(const json& measures) {
  json numbers = json::object();
  for (const auto& [key, value] : measures.items())
    if (value.is_number_float()) numbers[key] = value;
  return numbers;
}

// Trains with --report; the page must show exactly what was measured. Returns the page's data.
json checked_page(const Folder& folder, Words command, const std::string& out) {
  command.push_back("--report");
  const Finished r = run_training(folder, command, out);
  const json page = data_of(folder.path / out / "report.html");
  BOOST_REQUIRE_EQUAL(page["steps"].size(), r.steps.size());
  for (std::size_t i = 0; i < r.steps.size(); ++i) {
    const json& now = r.steps[i];
    BOOST_CHECK(page["steps"][i] == json({now["step"], now["loss"], now["accuracy"], now["lr"], now["gradient_norm"]}));
  }
  BOOST_REQUIRE_EQUAL(page["evaluations"].size(), r.evaluations.size());
  for (std::size_t i = 0; i < r.evaluations.size(); ++i) {
    json expected = numbers_of(r.evaluations[i]);
    expected["step"] = r.evaluations[i]["step"];
    BOOST_CHECK_MESSAGE(page["evaluations"][i] == expected, page["evaluations"][i] << " is not " << expected);
  }
  json told = numbers_of(r.summary);
  for (const char* key : {"seconds", "peak_rss_mb", "test_accuracy"}) told.erase(key);
  BOOST_CHECK_MESSAGE(page["result"] == told, page["result"] << " is not " << told);
  BOOST_CHECK(page["finished"] == true);
  BOOST_CHECK(page["options"] == json::parse(read(folder.path / out / "config.json")));
  BOOST_CHECK(page["command"].get<std::string>().find("train") != std::string::npos);
  return page;
}

// The sample's maps are those that `recorder` saw, to the four digits of the page.
void check_maps(const json& sample, const seppo::AttentionRecorder& recorder) {
  BOOST_REQUIRE_EQUAL(sample["maps"].size(), recorder.maps.size());
  for (std::size_t m = 0; m < recorder.maps.size(); ++m) {
    const seppo::AttentionMap& map = recorder.maps[m];
    const json& shown = sample["maps"][m];
    BOOST_CHECK_EQUAL(shown["name"].get<std::string>(), map.name);
    BOOST_CHECK_EQUAL(shown["heads"].get<int>(), map.shape[1]);
    BOOST_CHECK_EQUAL(shown["queries"].size(), static_cast<std::size_t>(map.shape[2]));
    BOOST_CHECK_EQUAL(shown["keys"].size(), static_cast<std::size_t>(map.shape[3]));
    BOOST_REQUIRE_EQUAL(shown["weights"].size(), map.weights.size());
    for (std::size_t i = 0; i < map.weights.size(); ++i)
      BOOST_CHECK_SMALL(shown["weights"][i].get<double>() - static_cast<double>(map.weights[i]), 1e-4);
  }
}

const Words kNoisy{"--epochs",       "5", "--epoch-steps",   "6", "--lr",         "0.1", "--schedule", "const",
                   "--warmup-steps", "0", "--eval-interval", "1", "--batch-size", "32",  "--seed",     "3"};

}  // namespace

BOOST_AUTO_TEST_CASE(expressions, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("report");
  const json page = checked_page(
      folder,
      {"addsub", "train", "--enc-layers",   "1",  "--dec-layers",    "2", "--epochs",     "4",  "--epoch-steps", "70",
       "--lr",   "0.005", "--warmup-steps", "20", "--eval-interval", "1", "--batch-size", "64", "--seed",        "3"},
      "m");
  const auto saved = seppo::load_model<addsub::Model>(folder.path / "m/model.safetensors");
  BOOST_CHECK(page["model"].get<std::string>().find("total") != std::string::npos);
  const addsub::Dataset data = addsub::drawn_dataset(3);
  const std::vector<int> rows = addsub::split_dataset(5'000, "course").validation;
  BOOST_REQUIRE_EQUAL(page["samples"].size(), 8);
  std::set<std::string> outputs;
  for (const json& sample : page["samples"]) outputs.insert(sample["output"].get<std::string>());
  BOOST_CHECK_GT(outputs.size(), 3);  // otherwise one sample could be mistaken for another
  for (std::size_t i = 0; i < 8; ++i) {
    const addsub::Expression& e = data.rows[static_cast<std::size_t>(rows[i])];
    const json& sample = page["samples"][i];
    Ragged source;
    source.add(e.source());
    const std::vector<int> answer = addsub::answers(saved.model, source)[0];
    BOOST_CHECK_EQUAL(sample["input"].get<std::string>(), e.arithmetic());
    BOOST_CHECK_EQUAL(sample["output"].get<std::string>(), addsub::token_text(answer));
    BOOST_CHECK_EQUAL("BOS " + sample["expected"].get<std::string>(), addsub::token_text(e.target()));
    // `predict` prints the two digits of a result as one number, as in the data.
    const Result asked = folder.run({"addsub", "predict", "--model", "m", addsub::token_text(e.source())});
    const std::string expected = "BOS " + sample["output"].get<std::string>();
    BOOST_CHECK_MESSAGE(asked.out == expected + "\n" || asked.out.starts_with(expected + "   wrong: it is "),
                        asked.out);
  }
}

BOOST_AUTO_TEST_CASE(digits) {
  const Folder folder("report");
  const json page = checked_page(folder, with({"reverse", "train", "--best", "loss"}, kNoisy), "m");
  const auto saved = seppo::load_model<reversal::Model>(folder.path / "m/model.safetensors");
  seppo::RandomStream random(3, seppo::Purpose::data, 11);
  BOOST_REQUIRE_EQUAL(page["samples"].size(), 8);
  for (const json& sample : page["samples"]) {
    Ragged input;
    std::vector<int> given;
    std::string shown, reversed, output;
    for (int i = 0; i < 16; ++i) given.push_back(static_cast<int>(random.below(10)));
    input.add(given);
    const seppo::Inference guard;
    const std::vector<int> best = argmax(saved.model(input));
    for (std::size_t i = 0; i < 16; ++i) {
      const char* const blank = i > 0 ? " " : "";
      shown += blank + std::to_string(given[i]);
      reversed += blank + std::to_string(given[15 - i]);
      output += blank + std::to_string(best[i]);
    }
    BOOST_CHECK_EQUAL(sample["input"].get<std::string>(), shown);
    BOOST_CHECK_EQUAL(sample["expected"].get<std::string>(), reversed);
    BOOST_CHECK_EQUAL(sample["output"].get<std::string>(), output);
  }
}

// Curves and results of the other programs; their samples match `predict`, or begin with an excerpt of the text.
BOOST_AUTO_TEST_CASE(other_programs) {
  const Folder folder("report");
  const json count = checked_page(folder, with({"count", "train"}, kNoisy), "count");
  for (const json& sample : count["samples"]) {
    const Result asked = folder.run({"count", "predict", "--model", "count", sample["input"].get<std::string>()});
    const bool is_right = sample["output"] == sample["expected"];
    BOOST_CHECK_EQUAL(asked.out, sample["output"].get<std::string>() +
                                     (is_right ? "" : "   wrong: it is " + sample["expected"].get<std::string>()) +
                                     "\n");
  }
  const json odd = checked_page(
      folder, with({"odd_one", "train", "--d-model", "8", "--heads", "2", "--layers", "1"}, kNoisy), "odd_one");
  BOOST_CHECK_EQUAL(odd["samples"].size(), 8);
  for (const json& sample : odd["samples"]) {
    const std::string number = sample["input"].get<std::string>().substr(4);
    const Result asked = folder.run({"odd_one", "predict", "--model", "odd_one", number});
    BOOST_CHECK_GE(std::stoi(number), 20'000);
    BOOST_CHECK(asked.out.starts_with("set " + number + ": element " + sample["output"].get<std::string>() + ", " +
                                      (sample["output"] == sample["expected"] ? "right" : "wrong: it is ")));
  }
  folder.write("p", "a b\tb a\nc d\td c\na c\tc a\nb d\td b\nc b\tb c\nd a\ta d\n");
  const json translate =
      checked_page(folder,
                   with({"translate", "train", "--pairs",          "p", "--val-pairs",  "p", "--d-model", "16",
                         "--heads",   "2",     "--enc-layers",     "1", "--dec-layers", "1", "--average", "3",
                         "--beam",    "1",     "--length-penalty", "0"},
                        kNoisy),
                   "translate");
  BOOST_CHECK_EQUAL(translate["samples"].size(), 6);
  for (const json& sample : translate["samples"]) {
    const std::string input = sample["input"];
    const Result asked =
        folder.run({"translate", "predict", "--model", "translate", "--beam", "1", "--length-penalty", "0", input});
    BOOST_CHECK_EQUAL(asked.out, sample["output"].get<std::string>() + "\n");
    BOOST_CHECK_EQUAL(sample["expected"].get<std::string>(), input.substr(2) + " " + input[0]);
  }
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::to_string(i * i) + " ";
  folder.write("t", text);
  for (const std::string program : {"charlm", "llm"}) {
    const json page = checked_page(
        folder,
        with({program, "train", "--data", "t", "--max-length", "16", "--d-model", "8", "--heads", "2", "--layers", "1"},
             kNoisy),
        program);
    BOOST_REQUIRE_EQUAL(page["samples"].size(), 4);
    for (const json& sample : page["samples"]) {
      const std::size_t at = text.find(sample["input"].get<std::string>());
      BOOST_CHECK_MESSAGE(at != text.npos && at + 1 >= text.size() * 9 / 10, sample["input"]);  // the validation part
      BOOST_CHECK(sample["expected"] == "" && sample["output"].get<std::string>().size() >= 48);
    }
  }
}

// A page without a network (test_page_network) has the maps of its samples.
BOOST_AUTO_TEST_CASE(maps_of_samples) {
  const Folder folder("report");
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::to_string(i * i) + " ";
  folder.write("t", text);
  const json page = checked_page(folder,
                                 with({"charlm", "train", "--data", "t", "--block", "16", "--d-model", "8", "--heads",
                                       "2", "--layers", "2", "--positions", "rotary"},
                                      kNoisy),
                                 "m");
  const auto saved = seppo::load_model<seppo::LanguageModel>(folder.path / "m/model.safetensors");
  const std::vector<std::string> vocabulary = saved.config["vocabulary"];
  BOOST_REQUIRE_EQUAL(page["samples"].size(), 4);
  for (const json& sample : page["samples"]) {
    std::vector<int> ids;
    for (const char c : sample["input"].get<std::string>())
      ids.push_back(static_cast<int>(std::ranges::find(vocabulary, std::string(1, c)) - vocabulary.begin()));
    Ragged input;
    input.add(ids);
    seppo::AttentionRecorder recorder;
    const seppo::Inference guard;
    const seppo::Observe scope(recorder);
    saved.model(input);
    check_maps(sample, recorder);
  }
}

// The command on the page can be pasted into a shell: words are quoted where necessary.
BOOST_AUTO_TEST_CASE(the_command_can_be_repeated) {
  const Folder folder("report");
  const Result r = folder.run({"reverse", "train", "--max-steps", "1", "--log-format", "none", "--report", "--out",
                               "it's here, in_a.b/c=d+e:f-g"});
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const std::string command = data_of(folder.path / "it's here, in_a.b/c=d+e:f-g/report.html")["command"];
  BOOST_CHECK_MESSAGE(command.ends_with("/reverse train --max-steps 1 --log-format none --report --out "
                                        "'it'\\''s here, in_a.b/c=d+e:f-g'"),
                      command);
}

// After a resume, the page also shows what was recorded before the interruption.
BOOST_AUTO_TEST_CASE(a_page_goes_on) {
  const Folder folder("report");
  const json whole = checked_page(folder, with({"reverse", "train"}, kNoisy), "whole");
  run_training(folder, with(with({"reverse", "train", "--report"}, kNoisy), {"--max-steps", "12"}), "cut");
  const json cut = checked_page(folder, {"reverse", "train", "--resume", "cut", "--max-steps", "0"}, "cut");
  for (const char* part : {"steps", "evaluations", "samples", "result", "model"})
    BOOST_CHECK_MESSAGE(cut[part] == whole[part], part);
}

// A step that was skipped has no loss, or no gradient norm, to draw.
BOOST_AUTO_TEST_CASE(a_page_goes_on_after_a_skipped_step) {
  const Folder folder("report");
  run_training(folder, with(with({"reverse", "train", "--report"}, kNoisy), {"--max-steps", "12"}), "m");
  const std::string lines = read(folder.path / "m/metrics.jsonl");
  for (const char* key : {"loss", "gradient_norm"})
    for (const bool is_missing : {false, true}) {
      json first = json::parse(lines.substr(0, lines.find('\n')));
      BOOST_REQUIRE(first.contains(key));
      first[key] = nullptr;
      if (is_missing) first.erase(key);
      folder.write("m/metrics.jsonl", first.dump() + lines.substr(lines.find('\n')));
      const Result r = folder.run({"reverse", "train", "--resume", "m", "--report", "--log-format", "none"});
      BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
      const json page = data_of(folder.path / "m/report.html");
      BOOST_REQUIRE(!page["steps"].empty());
      for (const json& step : page["steps"]) BOOST_CHECK_NE(step[0], first["step"]);
    }
}

// The more is learned from the beginning of this text, the worse its random end is predicted.
BOOST_AUTO_TEST_CASE(the_result_is_that_of_the_model_that_is_kept) {
  const Folder folder("report");
  std::string text;
  for (int i = 0; i < 300; ++i) text += "abcdefgh";
  seppo::RandomStream random(1, seppo::Purpose::test);
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + random.below(8));
  folder.write("t", text);
  const json page = checked_page(folder,
                                 with({"charlm", "train", "--data", "t", "--block", "8", "--d-model", "8", "--heads",
                                       "2", "--layers", "1", "--best", "loss"},
                                      kNoisy),
                                 "m");
  double least = 1e9;
  for (const json& e : page["evaluations"]) least = std::min(least, e["val_loss"].get<double>());
  BOOST_CHECK_LT(least, page["evaluations"].back()["val_loss"].get<double>());
  BOOST_CHECK_EQUAL(page["result"]["val_loss"].get<double>(), least);
}

// A page that is written before any step, after an evaluation that was cut short, shows no step.
BOOST_AUTO_TEST_CASE(a_page_without_steps_shows_none) {
  const Folder folder("report");
  examples::Report page(folder.path / "page.html", {"title", "about", "model", "data", json::object(), 10});
  page.add_evaluation(5, {{"val_loss", 2.5}});
  page.write({}, {{"val_loss", 2.5}}, false);
  BOOST_CHECK_EQUAL(data_of(folder.path / "page.html")["steps"].size(), 0u);
  page.add_step({.step = 7, .loss = 3});
  page.write({}, {{"val_loss", 2.5}}, false);
  BOOST_CHECK_EQUAL(data_of(folder.path / "page.html")["steps"][0][0], 7);
}
