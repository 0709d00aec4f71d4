// Memory is predicted before it is allocated; a model that does not fit is refused, naming the option to lower.
// needs: programs: all first_transformer
#include "app/memory.h"
#include "support/program.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/tape.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>

#include <boost/test/unit_test.hpp>

#include <sys/resource.h>
#include <numeric>

using namespace test;

// Compares the prediction with the peak size of a tape that runs the largest shard.
BOOST_AUTO_TEST_CASE(the_prediction_is_near_what_is_taken) {
  seppo::Parameters parameters(1);
  const seppo::Linear up(parameters.root() / "up", 32, 256), down(parameters.root() / "down", 256, 32);
  const examples::Loss loss = [&](std::span<const int> rows) {
    const auto count = static_cast<int>(rows.size());
    return seppo::ShardLoss{sum(down(relu(up(seppo::full({20 * count, 32}, 1))))), 1.0 * count};
  };
  std::vector<int> batch(128);
  std::iota(batch.begin(), batch.end(), 0);
  seppo::set_num_threads(1);
  const examples::MemoryNeed need = examples::predict_memory(parameters, batch, 64, loss);
  for (const seppo::real g : parameters.gradients()) BOOST_REQUIRE_EQUAL(g, 0);
  seppo::Tape tape;
  struct : seppo::Observer {
    std::size_t bytes = 0;
    void backward(const seppo::Tensor&) override { bytes = std::max(bytes, seppo::tape().used()); }
  } peak;
  {
    const seppo::UseTape use(tape);
    const seppo::Observe scope(peak);
    tape.backward(loss(std::span(batch).first(24)).loss);  // the largest of six shards
  }
  BOOST_CHECK_CLOSE(need.activations, static_cast<double>(peak.bytes), 15);
  // Gradients: of the current shard and of two partial sums waiting to be added; Adam's two moments.
  BOOST_CHECK_EQUAL(need.parameters, 5.0 * static_cast<double>(parameters.gradients().size_bytes()));
  // Four rounds of six shards: a quarter of the activations, but four partial sums waiting.
  const examples::MemoryNeed rounds = examples::predict_memory(parameters, batch, 64, loss, {.accumulate = 4});
  BOOST_CHECK_CLOSE(rounds.activations, need.activations / 4, 15);
  BOOST_CHECK_EQUAL(rounds.parameters, 7.0 * static_cast<double>(parameters.gradients().size_bytes()));
  seppo::set_num_threads(2);
  BOOST_CHECK_CLOSE(examples::predict_memory(parameters, batch, 64, loss).activations, 2 * need.activations, 1);
  seppo::set_num_threads(1);
}

// Of a large model, one example that takes much tells of all of them.
BOOST_AUTO_TEST_CASE(one_large_example_stands_for_a_shard) {
  seppo::Parameters parameters(1);
  const auto nothing = [](std::span<seppo::real>, const seppo::Shape&, seppo::RandomStream&) {};
  const seppo::Tensor weight = parameters.root().parameter("w", {(1 << 24) + 1}, nothing);
  const examples::Loss loss = [&](std::span<const int> rows) {
    const auto count = static_cast<int>(rows.size());
    const seppo::Tensor x = seppo::full({count * (17 << 20)}, 1);  // 68 MiB for each in single precision
    return seppo::ShardLoss{sum(x * slice(weight, 0, 0, 1)), 1.0 * count};
  };
  std::vector<int> batch(8);
  std::iota(batch.begin(), batch.end(), 0);
  seppo::set_num_threads(1);
  const examples::MemoryNeed need = examples::predict_memory(parameters, batch, 1, loss, {.shards = 1});
  BOOST_CHECK_GE(need.activations, 8.0 * (17 << 20) * sizeof(seppo::real));
}

// The memory announced at the start is within 15 % of the peak, relative to what training adds.
BOOST_AUTO_TEST_CASE(programs_take_what_they_say) {
  if (takes_memory_itself()) {
    std::puts("skipped: the memory that programs take, within a sanitizer or memcheck");
    return;
  }
  const Folder folder("memory");
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += static_cast<char>('a' + i * i % 23);
  folder.write("text", text);
  const std::vector<std::vector<std::string>> trainings{
      {"charlm", "train", "--data", "text", "--epoch-steps", "5"},
      {"addsub", "train", "--epoch-steps", "5", "--d-model", "64", "--d-ff", "256"}};
  for (std::vector<std::string> words : trainings)
    for (const char* threads : {"1", "2"}) {
      words.insert(words.end(), {"--epochs", "1", "--threads", threads, "--out", words[0] + threads, "--json"});
      const Result r = folder.run(words);
      BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
      const double said = std::stod(r.err.substr(r.err.find(" threads, about ") + 16)),
                   peak = last_line(r.out)["peak_rss_mb"].get<double>();
      BOOST_TEST_MESSAGE(words[0] << " with " << threads << ": " << said << " of " << peak);
      words.resize(words.size() - 7);
      std::vector<std::string> idle = words;
      idle.push_back("--dump-config");
      BOOST_CHECK_MESSAGE(
          std::abs(said - peak) < 0.15 * (peak - folder.run(idle).peak_mb),
          words[0] << " with " << threads << " threads: " << said << " MB are said, " << peak << " taken");
    }
}

BOOST_AUTO_TEST_CASE(the_least_limit_counts) {
  const Folder folder("memory");
  const auto write = [&](const std::string& name, const std::string& content) {
    fs::create_directories((folder.path / name).parent_path());
    folder.write(name, content);
  };
  write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n");
  BOOST_CHECK_EQUAL(examples::available_memory(folder.path), 5000 * 1024);
  const rlimit before = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_AS, &limit);
    return limit;
  }();
  const rlimit limit{rlim_t{1} << 44, before.rlim_max};
  BOOST_REQUIRE_EQUAL(::setrlimit(RLIMIT_AS, &limit), 0);
  write("proc/meminfo", "MemAvailable:    30000000000 kB\n");
  write("proc/self/statm", "1000 5 3 2 0 7 0\n");
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  BOOST_CHECK_EQUAL(examples::available_memory(folder.path), 0x1p44 - 1000 * page);
  BOOST_REQUIRE_EQUAL(::setrlimit(RLIMIT_AS, &before), 0);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
  if (takes_memory_itself()) {
    std::puts("skipped: a limit of memory, within a sanitizer or memcheck");
    return;
  }
  const Folder folder("memory");
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{rlim_t{2} << 30, rlim_t{2} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
    const Result r = folder.run(
        {"reverse", "train", "--batch-size", "50000", "--shards", "2", "--d-model", "256", "--log-format", "none"});
    bool is_right = r.code == 1 && r.err.find("--batch-size: 50000 examples need about") != std::string::npos;
    for (const char* program : {"reverse", "addsub", "count", "odd_one", "translate"}) {
      const Result large = folder.run({program, "train", "--d-model", "16384", "--log-format", "none"});
      is_right &= large.code == 1 && std::count(large.err.begin(), large.err.end(), '\n') == 1 &&
                  large.err.find("--d-model: there is memory to train ") != std::string::npos;
    }
    ::_exit(is_right ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_CHECK_EQUAL(status, 0);
}

// On several processors, OpenBLAS's idle threads would ask for address space for ever.
BOOST_AUTO_TEST_CASE(programs_end_with_little_address_space) {
  if (takes_memory_itself()) {
    std::puts("skipped: a limit of memory, within a sanitizer or memcheck");
    return;
  }
  const Folder folder("memory");
  const auto run_limited = [&](const std::string& command) {
    const std::string line = "ulimit -v 150000; timeout 20 " + programs_folder() + "/" + command + " > " +
                             (folder.path / "out").string() + " 2>&1";
    const int status = std::system(line.c_str());
    return WEXITSTATUS(status);
  };
  BOOST_CHECK_EQUAL(run_limited("positions --length 2 --width 2"), 0);
  BOOST_CHECK_EQUAL(run_limited("addsub --help"), 0);
  BOOST_CHECK_EQUAL(run_limited("reverse predict --model '' 'two  words'"), 2);
  BOOST_CHECK_NE(read(folder.path / "out").find("--model"), std::string::npos);  // the arguments are the same
  BOOST_CHECK_EQUAL(run_limited("first_transformer"), 0);
}

// Refusals state the amounts in GB and the option to lower: the batch size if activations need more than the model.
BOOST_AUTO_TEST_CASE(refusals_say_how_much) {
  const auto refusal = [](const examples::MemoryNeed& need) -> std::string {
    try {
      examples::check_memory(need, 77);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "none";
  };
  const std::string model = "--d-model: gradients and moments need about 2.4e+06 GB of memory, ",
                    batch = "--batch-size: 77 examples need about 2.4e+06 GB of memory, ";
  for (const auto& [need, begin, end] :
       {std::tuple{examples::MemoryNeed{1.2e15, 1.2e15, 6e14}, model, "lower it, --d-ff or the number of layers"},
        {examples::MemoryNeed{1.1e15, 6e14, 1.3e15}, batch, "lower it, the length of the examples, or --d-model"},
        {examples::MemoryNeed{2.4e15, 0, 0}, model, "lower it, --d-ff or the number of layers"},
        {examples::MemoryNeed{0, 2.4e15, 2.3e15}, batch, "lower it, the length of the examples, or --d-model"}}) {
    const std::string text = refusal(need);
    BOOST_CHECK_MESSAGE(text.starts_with(begin) && text.ends_with(std::string(" GB are available; ") + end), text);
    const double left = std::stod(text.substr(begin.size()));
    BOOST_CHECK_CLOSE(left, examples::available_memory() / 1e9, 25);
  }
  BOOST_CHECK_EQUAL(refusal({.parameters = examples::available_memory() / 4}), "none");
  BOOST_CHECK_EXCEPTION(examples::refuse_model(1'234'567), std::runtime_error, [](const std::runtime_error& e) {
    return std::string(e.what()) ==
           "--d-model: there is memory to train 1.2 million parameters, and the model has more; lower it, --d-ff or "
           "the "
           "number of layers";
  });
  BOOST_CHECK_CLOSE(static_cast<double>(examples::most_values()), examples::available_memory() / 20, 25);
  BOOST_CHECK_GT(examples::resident_memory(), 1e6);
  BOOST_CHECK_LT(examples::resident_memory(), 1e11);
}
