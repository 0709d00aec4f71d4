// run<Program>: the commands of a program, made of the struct that program.h describes.
//
//   train    trains a model and saves it, with progress, checkpoints, evaluations and a report page (run.h)
//   eval     scores a saved model on the examples for validation and test
//   predict  answers queries, and shows the attention
//   export   writes a saved model for other tools (export.h)
//   data     prints the first rows of the data
#pragma once

#include "app/attention_pictures.h"
#include "app/export.h"
#include "app/memory.h"
#include "app/program.h"
#include "app/words.h"

#include <seppo/nn/io/json.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/ranks.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace examples {

// ---- its measures

std::vector<int> first_indices(std::size_t count);  // 0 .. count - 1

// {"val_exact": ...} from {"exact": ...}.
nlohmann::json with_prefix(const std::string& part, const nlohmann::json& measures);
// The opposite, without what does not begin so.
nlohmann::json without_prefix(const std::string& part, const nlohmann::json& summary);

// The loss on some of these examples, and the program's measures.
template <Program P>
Evaluation evaluate(const P& program, const typename P::Model& model, const typename P::Examples& examples,
                    const std::vector<int>& rows) {
  if constexpr (EvaluatesItself<P>) {
    return program.evaluate(model, examples.pick(rows));
  } else {
    const auto score = [&](std::span<const int> some) -> seppo::Sums {
      if constexpr (requires { program.score(model, examples.pick(some)); })
        return program.score(model, examples.pick(some));
      else
        return program.loss(model, examples.pick(some));
    };
    const seppo::Sums sums = seppo::evaluate(rows, score, P::about().chunk);
    return {sums.mean("loss"), program.measures(sums)};
  }
}

// The same of all of them, with measures under the names of a part of the data: "val_exact".
template <Program P>
Evaluation evaluate(const P& program, const typename P::Model& model, const typename P::Examples& examples,
                    const std::string& part) {
  Evaluation evaluation;
  if constexpr (EvaluatesItself<P>)
    evaluation = program.evaluate(model, examples);
  else
    evaluation = evaluate(program, model, examples, first_indices(examples.size()));
  return {evaluation.val_loss, with_prefix(part, evaluation.measures)};
}

// The first of the program's measures, or the loss, on the first examples for validation.
template <Program P>
Measure quick_measure(const P& program, const typename P::Model& model, const typename P::Examples& validation) {
  constexpr std::size_t kChunks = 8;
  const About about = P::about();
  const std::vector<int> rows = first_indices(std::min(validation.size(), kChunks * about.chunk));
  const std::string name = about.measures.empty() ? "loss" : about.measures[0];
  return {"val_" + name, rows.size(), [&program, &model, &validation, rows, name] {
            const Evaluation evaluation = evaluate(program, model, validation, rows);
            return name == "loss" ? evaluation.val_loss : evaluation.measures.at(name).template get<double>();
          }};
}

// ---- its commands

// The title of the report, which may depend on the data.
template <Program P>
std::string title_of(const P& program) {
  if constexpr (requires { program.title(); })
    return program.title();
  else
    return P::about().title;
}

// The answers to the first examples for validation.
template <Program P>
std::vector<Sample> samples_of(const P& program, const typename P::Model& model,
                               const Data<typename P::Examples>& data) {
  if constexpr (requires { program.samples(model, data); }) {
    return program.samples(model, data);
  } else {
    constexpr std::size_t kSamples = 8;
    std::vector<Sample> samples;
    for (const int i : first_indices(std::min(kSamples, data.validation.size())))
      samples.push_back(program.answer(model, data.validation.pick({{i}})));
    return samples;
  }
}

// Of each example, if they have lengths.
template <class Examples>
std::vector<int> lengths_of(const Examples& examples) {
  if constexpr (requires { examples.lengths(); })
    return examples.lengths();
  else
    return {};
}

// Throws UsageError if batches are to be measured in tokens, and examples have no lengths.
void check_batches(const seppo::SamplerConfig& sampler, std::span<const int> lengths);

// A model with parameters of its own, as pretrained() gives it.
template <class Model>
struct NewModel {
  std::unique_ptr<seppo::Parameters> parameters;
  Model model;
};

// The model to train.
template <Program P>
decltype(auto) model_of(P& program) {
  if constexpr (IsPretrained<P>) {
    return program.pretrained();
  } else {
    auto parameters = std::make_unique<seppo::Parameters>(program.training.trainer.seed, most_values());
    auto model = build<typename P::Model>(*parameters, program.model);
    return NewModel<typename P::Model>{std::move(parameters), std::move(model)};
  }
}

template <Program P>
int train(const Arguments& arguments) {
  const About about = P::about();
  P program;
  Run run{.out = "runs/" + about.name, .measures = about.measures};
  CommandLine line(about.name + " " + about.usage, about.task);
  if constexpr (requires { program.options(line, arguments); }) program.options(line, arguments);
  for_each_part(program, [&](const char* key, auto& part) { line.fields(key, part); });
  run.training = program.training;
  run.add_to(line);
  line.show(about.shown);
  line.settle([&] {
    program.training = run.training;
    settle(program, line);
    run.training = program.training;
  });
  if (!line.parse(arguments)) return 0;
  begin(program);

  const Data<typename P::Examples> data = program.data();
  run.training = program.training;  // some of which data() may have chosen
  const std::vector<int> lengths = lengths_of(data.training);
  check_batches(run.training.sampler, lengths);
  const auto& trained = model_of(program);
  const typename P::Model& model = trained.model;
  bool is_saved = false;
  Task task{
      .title = title_of(program),
      .about = about.task,
      .data = data.summary,
      .example = data.next.empty() ? about.next : data.next,
      .examples = data.training.size(),
      .digest = data.digest,
      .evaluated = about.chunk,
      .lengths = lengths,
      .loss = [&](std::span<const int> some) { return program.loss(model, data.training.pick(some)); },
      .evaluate = [&] { return evaluate(program, model, data.validation, "val"); },
      .samples = [&] { return samples_of(program, model, data); },
      .extra = data.extra,
  };
  if constexpr (requires { program.page_network(model, data); }) {
    task.network = [&] { return program.page_network(model, data); };
    task.measure = quick_measure(program, model, data.validation);
  }
  if constexpr (Saves<P>)
    task.save = [&] {
      program.save(run.out);
      is_saved = true;
    };
  if constexpr (requires { program.frozen(); }) task.frozen = program.frozen();
  Result result = run.train(line, *trained.parameters, model, task);
  if (task.save && !is_saved && seppo::rank() == 0) task.save();  // a resumed run may have kept the model of before
  if constexpr (Concludes<P>) {
    result.summary.update(program.conclude(model, data.validation));
  } else if (about.ends_with_test) {
    result.summary.update(evaluate(program, model, *data.test, "test").measures);
    program.print(result.summary, "test", data.test->size());
  } else {
    program.print(result.summary, "val", data.validation.size());
  }
  run.finish(line, task, result);
  if constexpr (requires { program.check(result.summary); }) program.check(result.summary);
  return 0;
}

template <Program P>
requires Prints<P>
int eval(const Arguments& arguments) {
  const About about = P::about();
  Trained trained{.program = about.name};
  bool as_json = false;
  P program;
  CommandLine line(about.name + " eval [options]", about.task);
  trained.fields(line);
  if constexpr (requires { program.eval_options(line); }) program.eval_options(line);
  line("json", as_json, kJsonHelp);
  if (!line.parse(arguments)) return 0;

  const auto saved = trained.load<typename P::Model>();
  restore(program, saved.config);
  const Data<typename P::Examples> data = program.data();
  nlohmann::json summary;
  const auto score = [&](const typename P::Examples& examples, const std::string& part) {
    const Evaluation evaluation = evaluate(program, saved.model, examples, part);
    summary.update(evaluation.measures);
    summary[part + "_loss"] = evaluation.val_loss;
    program.print(summary, part, examples.size());
  };
  score(data.validation, "val");
  if (data.test) score(*data.test, "test");
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

// "wrong: it is 42", for standard output: red on a terminal (terminal.h).
std::string correction(const std::string& right);

// Prints a line; on a terminal, it is broken between words (terminal.h).
void print_fitted(const std::string& line);

// Prints the answer as Sample says, and shows the attention if that is wanted.
void show_answer(const std::string& program, const Sample& sample, const AttentionOutput& attention);

template <Program P>
requires HasAnswer<P>
int predict(const Arguments& arguments) {
  const About about = P::about();
  Trained trained{.program = about.name};
  AttentionOutput attention;
  Arguments words;
  P program;
  CommandLine line(about.name + " predict [options] [" + about.query + " ...]", about.predict_help);
  trained.fields(line);
  if (about.offers_weights) trained.weights_field(line);
  if constexpr (requires { program.predict_options(line); }) program.predict_options(line);
  attention.fields(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;
  if constexpr (requires { P::is_one_query(words); })
    if (P::is_one_query(words)) words = {joined(words)};
  attention.check_queries(words.size());
  attention.prepare();

  const auto saved = trained.load<typename P::Model>();
  restore(program, saved.config);
  std::size_t queries = 0;
  for_each_text(words, [&](const std::string& text) {
    attention.check_queries(++queries);
    show_answer(about.name, program.answer(saved.model, program.parse(text)), attention);
  });
  return 0;
}

// That of a training whose config.json this is.
template <Program P>
void take_seed(P& program, const nlohmann::json& config) {
  const auto training = config.find("training");
  if (training != config.end() && training->contains("seed") && training->at("seed").is_number_unsigned())
    program.training.trainer.seed = training->at("seed").template get<std::uint64_t>();
}

template <Program P>
int show_data(const Arguments& arguments) {
  const About about = P::about();
  P program;
  int head = 10;
  CommandLine line(about.name + " data [options]", "Prints the first rows of the data.");
  if constexpr (requires { program.data_options(line, arguments); }) program.data_options(line, arguments);
  for_each_part(program, [&](const char* key, auto&) { line.other_part(key); });
  line.other_part("training");
  line("seed", program.training.trainer.seed, "random seed for drawn data");
  line("head", head, {1, 1e6}, "rows to print");
  line.settle([&] { settle(program, line); });
  if (!line.parse(arguments)) return 0;
  if (const auto file = option_in(arguments, "config", std::string()); !file.empty() && !line.typed("seed"))
    take_seed(program, seppo::parse_json(seppo::read_text(file), file));
  begin(program);

  const auto all = [&] {
    if constexpr (requires { program.all(); })
      return program.all();
    else
      return program.data().training;
  }();
  const std::size_t shown = std::min<std::size_t>(all.size(), static_cast<std::size_t>(head));
  for (std::size_t i = 0; i < shown; ++i) std::cout << program.row(all, i) << "\n";
  std::cout << shown << " of " << all.size() << " " << about.rows;
  if constexpr (requires { program.legend(); }) std::cout << program.legend();
  std::cout << "\n";
  return 0;
}

// Adds a command, unless there is one of this name: `train` before the others, another behind them.
void add_command(std::vector<Command>& commands, const Command& command);

// The main function of a program.
template <Program P>
int run(int argc, char** argv) {
  const About about = P::about();
  std::vector<Command> commands;
  if constexpr (requires { P::commands(); }) commands = P::commands();
  add_command(commands, {"train", "train a model and save it", train<P>});
  if constexpr (Prints<P>) add_command(commands, {"eval", "score a saved model", eval<P>});
  if constexpr (HasAnswer<P>) add_command(commands, {"predict", about.predicts, predict<P>});
  if constexpr (Exports<P>) add_command(commands, {"export", "write a model for other tools", export_model<P>});
  add_command(commands, {"data", "print the first rows of the data", show_data<P>});
  return run_commands(argc, argv, about.name + ": " + about.summary, commands);
}

}  // namespace examples
