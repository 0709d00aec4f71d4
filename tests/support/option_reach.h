// Which modules each option of a model reaches: changing it must change what these modules compute, and nothing else.
//
//   test::check_reach(BertConfig{...}, {{"eps", "bert.norm bert.layers.*.norm*"}, ...}, run);
//
// So that a module shows its own options and not those of the modules before it, every op is given fixed inputs: as
// soon as an op has computed its result, the result is noted and replaced by numbers that depend on nothing but its
// size. Dropout masks are the same everywhere.
#pragma once

#include <seppo/autograd/core/observer.h>
#include <seppo/nn/config.h>
#include <seppo/nn/parameters.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace test {

struct Observed {
  // By the module's name, the ops' names, shapes and results, one after another. What belongs to no module is that of
  // "model".
  std::map<std::string, std::vector<double>> modules;
  std::vector<double> result;  // of the last op, without any replacement
};

// The field with this name reaches the modules whose names match one of these patterns, separated by blanks, in which *
// is any text, and so the model's result; without patterns, neither. A field that may change anything, such as a width,
// has the pattern "?".
struct Reach {
  std::string field, modules;
};

// Gives every parameter values of its own, which depend on its name alone, and are neither 0 nor 1.
void fill_by_name(seppo::Parameters& parameters);

// What f, which calls a model, computes in training.
Observed observed(const std::function<void()>& f);

// The same as check_reach for fields that refer to the config with which `run` runs: each takes another value, of a
// choice one after another, and has its own again at the end. No two values of a choice may give the same result.
void check_reach_of(const std::vector<seppo::Field>& fields, const std::vector<Reach>& expected,
                    const std::function<Observed()>& run);

// run(config) makes a model of the config, fills its parameters and calls it. Each field needs its line in `expected`.
template <class Config, class Run>
void check_reach(Config config, const std::vector<Reach>& expected, const Run& run) {
  check_reach_of(seppo::fields_of(config), expected, [&] { return observed([&] { run(config); }); });
}

}  // namespace test
