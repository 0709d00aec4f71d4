// The page's training of one's own (docs/your-own-training.md): killed in the middle, it resumes to the same bytes.
// needs: programs: own_run
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <csignal>
#include <sstream>

using namespace test;

namespace {

// metrics.jsonl without the times that steps took, and without the line of the step at which a signal ended a run.
std::vector<nlohmann::json> metrics(const fs::path& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    constexpr int kLogInterval = 100;
    nlohmann::json metric = nlohmann::json::parse(line);
    metric.erase("seconds");
    const bool is_of_a_step = metric.contains("gradient_norm");
    if (is_of_a_step && metric.at("step").get<int>() % kLogInterval != 0) continue;
    lines.push_back(metric);
  }
  return lines;
}

// Ends the program with this signal once it has evaluated and saved.
int stop(const Folder& folder, pid_t child, int signal) {
  for (int tries = 0; tries < 60'000 && !fs::exists(folder.path / "runs/own/model.safetensors"); ++tries)
    ::usleep(1000);
  ::kill(child, signal);
  return folder.finish(child).code;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_stopped_training_of_ones_own_goes_on) {
  const Folder whole("own-whole");
  BOOST_REQUIRE_EQUAL(whole.run({"own_run"}).code, 0);
  const std::string expected = read(whole.path / "runs/own/model.safetensors");
  BOOST_REQUIRE(!expected.empty());
  for (const int signal : {SIGKILL, SIGINT}) {
    const Folder folder("own-stopped");
    BOOST_REQUIRE_EQUAL(stop(folder, folder.start({"own_run"}), signal), 128 + signal);
    const Result resumed = folder.run({"own_run", "--resume"});
    BOOST_CHECK_EQUAL(resumed.code, 0);
    BOOST_CHECK(resumed.out.find("epoch  1 ") == std::string::npos);  // it did not begin again
    BOOST_CHECK(read(folder.path / "runs/own/model.safetensors") == expected);
    BOOST_CHECK(metrics(folder.path / "runs/own") == metrics(whole.path / "runs/own"));
  }
}

BOOST_AUTO_TEST_CASE(without_a_checkpoint_there_is_nothing_to_resume) {
  const Folder folder("own-nothing");
  const Result result = folder.run({"own_run", "--resume"});
  BOOST_CHECK_EQUAL(result.code, 1);
  BOOST_CHECK_EQUAL(result.err, "own_run: runs/own: has no checkpoint to go on from\n");
}
