// A program is a struct: its options, data, model, loss, measures and one query. app::run (run_program.h) makes the
// commands train, eval, predict, data and help of it.
//
//   struct Reverse {
//     using Model = reversal::Model;                       // built from a Scope and its Config
//     using Examples = seppo::Ragged;                      // has size() and pick(indices), which gives a batch
//
//     Model::Config model = {};                            // what options change, with its defaults
//     app::TrainingConfig training = {.epochs = 10, .best = "exact"};
//
//     static app::About about();
//     app::Data<Examples> data();                          // for training, validation and test
//     seppo::ShardLoss loss(const Model&, const Ragged& batch) const;
//     seppo::Sums score(const Model&, const Ragged& batch) const;
//     nlohmann::json measures(const seppo::Sums&) const;   // {"exact": 0.99}, from sums over all batches
//     void print(const nlohmann::json& summary, const std::string& part, std::size_t examples) const;
//     std::string row(const Examples&, std::size_t i) const;
//
//     Ragged parse(std::string_view text) const;           // a query of `predict`: a batch of one example
//     app::Sample answer(const Model&, const Ragged& query) const;
//   };
//   int main(int argc, char** argv) { return app::run<Reverse>(argc, argv); }
//
// A program may also have these, which run_program.h calls if they are there:
//
//   options(line, arguments)  before the command line is read: more options, and presets
//   parts(f)                  f(key, config) for each of its configs, if there are more than that of the model
//   settle(line)              after it is read: values that depend on other options, unless given
//   begin()                   what the options determine; called once, before all that follows
//   pretrained()              a model and its parameters, which begin() has loaded, to be trained instead of a new one
//   save(folder)              what the folder has besides the model file, with each model that is kept
//   title()                   of the report, if it depends on the data
//   evaluate(model, examples) instead of score() and measures()
//   samples(model, data)      of the report, instead of answers to the first examples for validation
//   page_network(model, data) what the report page needs to compute with the model (page_network.h), if it can
//   conclude(model, data)     instead of print(), at the end of training: scores the kept model on these examples in
//                             another way, prints that, and returns what becomes part of the summary
//   check(summary)            at the end of training: throws if the result is a failure
//   is_one_query(words)       are the words of the command line a query without quotes?
//   read_extra(config)        what else the model's file contains (Data::extra)
//   eval_options(line)        more options of `eval`, which are not of a config
//   predict_options(line)     more options of `predict`
//   data_options(line, arguments), all(), legend()  of `data`: its options, all rows, and text after the last line
//   commands()                commands of its own, which may replace those made here
//
// and its examples lengths(), one for each: batches then group examples of similar length.
#pragma once

#include "app/attention_pictures.h"
#include "app/run.h"

#include <seppo/nn/train/evaluate.h>

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace examples {

// What is said of a program.
struct About {
  std::string name;                        // "reverse"
  std::string summary;                     // "a one-layer Transformer encoder learns to reverse 16 digits."
  std::string title = {};                  // of the report
  std::string task;                        // what is learned, and what the measures mean
  std::string usage = "train [options]";   // of the command that trains
  std::vector<std::string> measures = {};  // for --best: those for which higher is better
  std::vector<std::string> shown = {};     // options that `train --help` shows, besides those of every training
  std::string query = {};                  // what `predict` takes, such as "SEQUENCE"
  std::string predicts = {};               // what it does, in the list of commands
  std::string predict_help = {};           // and in its own help
  std::string next = {};                   // a command to try after training: "predict --attention 3141592653589793"
  std::string rows = "rows";               // what `data` prints
  std::size_t chunk = 64;                  // examples that a thread evaluates at a time
  bool ends_with_test = false;             // `train` also scores the examples for the test
  bool offers_weights = false;             // `predict` takes --weights: its model may be large
};

// The data of a program.
template <class Examples>
struct Data {
  Examples training, validation;
  std::optional<Examples> test = {};
  std::string summary = {};                         // "50000 training and 1000 validation sequences"
  std::string digest = {};                          // data_digest.h
  std::string next = {};                            // instead of About::next
  nlohmann::json extra = nlohmann::json::object();  // what else the model file contains, such as a vocabulary
};

template <class P>
using BatchOf = decltype(std::declval<const typename P::Examples&>().pick(std::span<const int>()));

// ---- what a program must have; a compiler's message names the concept that is not satisfied

template <class P>
concept HasOptions = requires(P program) {
  { P::about() } -> std::same_as<About>;
  { (program.training) } -> std::same_as<TrainingConfig&>;
};

template <class P>
concept IsPretrained = requires(P program) {
  { (program.pretrained().model) } -> std::same_as<typename P::Model&>;
  { *program.pretrained().parameters } -> std::same_as<seppo::Parameters&>;
};

template <class P>
concept HasModel = IsPretrained<P> || requires(P program) {
  { (program.model) } -> std::same_as<typename P::Model::Config&>;
};

template <class P>
concept Saves = requires(P program) {
  program.save(std::filesystem::path());
};

template <class P>
concept HasData = requires(P program, const typename P::Examples& examples) {
  { program.data() } -> std::same_as<Data<typename P::Examples>>;
  { examples.size() } -> std::convertible_to<std::size_t>;
  { program.row(examples, std::size_t()) } -> std::convertible_to<std::string>;
};

template <class P>
concept HasLoss = requires(const P& program, const typename P::Model& model, const BatchOf<P>& batch) {
  { program.loss(model, batch) } -> std::same_as<seppo::ShardLoss>;
};

template <class P>
concept EvaluatesItself = requires(const P& program, const typename P::Model& model,
                                   const typename P::Examples& examples) {
  { program.evaluate(model, examples) } -> std::same_as<Evaluation>;
};

template <class P>
concept HasMeasures = EvaluatesItself<P> || requires(const P& program, const seppo::Sums& sums) {
  { program.measures(sums) } -> std::convertible_to<nlohmann::json>;
};

template <class P>
concept Prints = requires(const P& program, const nlohmann::json& summary) {
  program.print(summary, std::string(), std::size_t());
};

// Or, instead.
template <class P>
concept Concludes = requires(P program, const typename P::Model& model, const typename P::Examples& examples) {
  { program.conclude(model, examples) } -> std::convertible_to<nlohmann::json>;
};

template <class P>
concept TellsResult = Prints<P> || Concludes<P>;

// parse() may give something else than a batch if samples() is there.
template <class P>
concept HasAnswer = requires(const P& program, const typename P::Model& model) {
  { program.answer(model, program.parse(std::string_view())) } -> std::same_as<Sample>;
};

template <class P>
concept Program = HasOptions<P> && HasModel<P> && HasData<P> && HasLoss<P> && HasMeasures<P> && TellsResult<P>;

// ---- its options

// Calls f(key, config) for each config of the program, except for that of the training.
template <class P, class F>
void for_each_part(P& program, const F& f) {
  if constexpr (requires { program.parts(f); })
    program.parts(f);
  else
    f("model", program.model);
}

// settle() sets what other options determine unless it is given; begin() makes what all commands need.
template <class P>
void settle(P& program, const CommandLine& line) {
  if constexpr (requires { program.settle(line); }) program.settle(line);
}
template <class P>
void begin(P& program) {
  if constexpr (requires { program.begin(); }) program.begin();
}

// Products as precise as those of the training that made a model, of whose file this is the configuration.
inline void restore_precision(const nlohmann::json& config) {
  seppo::set_matmul_precision(config_part<TrainingConfig>(config, "training").trainer.matmul_precision);
}

// Makes the program what it was when it trained a model, products included: `config` is that of the model's file.
template <class P>
void restore(P& program, const nlohmann::json& config) {
  for_each_part(program, [&]<class Config>(const char* key, Config& part) { part = config_part<Config>(config, key); });
  program.training = config_part<TrainingConfig>(config, "training");
  restore_precision(config);
  begin(program);
  if constexpr (requires { program.read_extra(config); }) program.read_extra(config);
}
template <class P>
P restored(const nlohmann::json& config) {
  P program;
  restore(program, config);
  return program;
}

}  // namespace examples

namespace app = examples;
