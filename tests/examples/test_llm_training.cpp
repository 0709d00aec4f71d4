// llm: what the options of a training do to the model in memory, adapters in evaluations and samples, and precision.
// needs: programs: llm
#include "llm/source.h"
#include "llm/training.h"
#include "support/llm_models.h"

#include <seppo/autograd/core/matmul_precision.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace test;
using seppo::MatmulPrecision;

namespace {

// A model of two layers, and the text.
void write_all(const Folder& folder) {
  nlohmann::json config = kLlama;
  config["num_hidden_layers"] = 2;
  write_model(folder, "m", config);
  write_text(folder);
}

// What trains the model in the folder, or a new one, with windows of the text of eight tokens.
llm::Finetuning finetuning(const Folder& folder, int lora) {
  llm::Finetuning tuning;
  tuning.base.model = folder.path / "m";
  tuning.lora.lora = lora;
  tuning.source.data = folder.path / "t.txt";
  tuning.source.window = 8;
  return tuning;
}
llm::Pretraining pretraining(const Folder& folder) {
  llm::Pretraining training;
  training.architecture.model.layer.d_model = 8;
  training.architecture.model.layer.n_heads = 2;
  training.architecture.model.max_length = 8;
  training.source.data = folder.path / "t.txt";
  return training;
}

// The memory that a loss keeps for backward, and the gradients.
struct Kept {
  std::size_t bytes;
  std::vector<seppo::real> gradients;
};
template <class Training>
Kept kept(Training training, bool checkpoints) {
  training.source.checkpoint_activations = checkpoints;
  training.begin();
  const auto data = training.data();
  const std::vector<int> rows{0, 1, 2, 3, 4, 5, 6, 7};
  seppo::Tape tape;
  const seppo::UseTape use(tape);
  const auto loss = training.loss(training.folder->model, data.training.pick(rows)).loss;
  const std::size_t bytes = tape.used();
  tape.backward(loss);
  const auto gradients = training.folder->parameters->gradients();
  return {bytes, {gradients.begin(), gradients.end()}};
}

template <class Make>
void check_checkpoints(const Make& make) {
  const Kept all = kept(make(), false), some = kept(make(), true);
  BOOST_CHECK_LT(some.bytes, all.bytes / 2);
  BOOST_CHECK(some.gradients == all.gradients);
}

// B of each adapter begins at zero, so that the model is the same without; then it is not.
void set_adapters(const llm::Finetuning& tuning) {
  seppo::Parameters& parameters = *tuning.folder->parameters;
  const std::span<seppo::real> values = parameters.edit();
  for (const auto& entry : parameters.entries()) {
    if (!entry.name.starts_with("lora.") || !entry.name.ends_with(".b")) continue;
    for (std::size_t i = 0; i < entry.size(); ++i)
      values[entry.offset + i] = static_cast<seppo::real>(std::sin(3 * static_cast<double>(i)));
  }
}

std::vector<std::string> outputs(const std::vector<app::Sample>& samples) {
  std::vector<std::string> all;
  for (const app::Sample& sample : samples) all.push_back(sample.output);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(checkpoints_keep_less_for_backward) {
  const Folder folder("llm");
  write_all(folder);
  check_checkpoints([&] { return pretraining(folder); });
  check_checkpoints([&] { return finetuning(folder, 0); });
  check_checkpoints([&] { return finetuning(folder, 2); });
}

// Evaluations and samples are those of the model that is saved: with adapters, which here change it much.
BOOST_AUTO_TEST_CASE(adapters_are_evaluated_and_write_the_samples) {
  const Folder folder("llm");
  write_all(folder);
  llm::Finetuning tuning = finetuning(folder, 2);
  tuning.begin();
  const auto data = tuning.data();
  const auto evaluation = [&] { return tuning.evaluate(tuning.folder->model, data.validation).val_loss; };
  const auto samples = [&] { return outputs(tuning.samples(tuning.folder->model, data)); };
  const double before = evaluation();
  const std::vector<std::string> written_before = samples();
  set_adapters(tuning);
  const double loss = evaluation();
  const std::vector<std::string> written = samples();
  BOOST_CHECK_GT(std::abs(loss - before), 1e-3);
  BOOST_CHECK(written != written_before);
  tuning.adapters->merge();
  tuning.with_adapters.reset();
  BOOST_CHECK_CLOSE(evaluation(), loss, 1e-3);
  BOOST_CHECK(samples() == written);
}

// Bits per byte are of the bytes that are predicted: of the answers alone, if the loss is theirs.
BOOST_AUTO_TEST_CASE(bits_are_of_the_bytes_that_are_predicted) {
  const Folder folder("llm");
  write_all(folder);
  folder.write("m/chat_template.jinja",
               "{% for m in messages %}{{ m.role[0] + m.content + '<|endoftext|>' }}{% endfor %}");
  std::string talks;
  for (int i = 0; i < 40; ++i)
    talks += R"({"messages": [{"role": "user", "content": "and a question"}, {"role": "assistant", "content": "yes )" +
             std::to_string(i) + "\"}]}\n";
  folder.write("t.jsonl", talks);
  for (const llm::LossOn loss_on : {llm::LossOn::all, llm::LossOn::answers}) {
    llm::Finetuning tuning = finetuning(folder, 0);
    tuning.source.data = folder.path / "t.jsonl";
    tuning.source.chat = true;
    tuning.source.loss_on = loss_on;
    tuning.begin();
    const llm::Windows text = tuning.data().validation;
    double tokens = 0, bytes = 0;
    for (std::size_t i = 1; i < text.tokens.size(); ++i) {
      if (!text.targets.empty() && text.targets[i] == seppo::kNoTarget) continue;
      tokens += 1;
      bytes += static_cast<double>(tuning.folder->tokenizer.decode(std::vector<int>{text.tokens[i]}).size());
    }
    const app::Evaluation now = tuning.evaluate(tuning.folder->model, text);
    const double bits = now.measures.at("bits_per_byte").get<double>();
    BOOST_CHECK_CLOSE(bits, now.val_loss * tokens / bytes / std::log(2), 1e-6);
    BOOST_CHECK((loss_on == llm::LossOn::all) == text.targets.empty());
  }
}

// For commands that read a model, and for models of trainings, on any processor.
BOOST_AUTO_TEST_CASE(precision_is_that_of_the_program) {
  const Folder folder("llm");
  write_all(folder);
  BOOST_CHECK(seppo::matmul_precision() == MatmulPrecision::highest);
  const llm::Source source{.model = folder.path / "m", .precision = MatmulPrecision::medium};
  source.open();
  BOOST_CHECK(seppo::matmul_precision() == MatmulPrecision::medium);
  BOOST_REQUIRE_EQUAL(folder.run(with(with({"llm", "train", "--matmul-precision", "high"}, kTiny), kBrief)).code, 0);
  const seppo::SafeTensorsFile trained(folder.path / "runs/llm/model.safetensors");
  app::restored<llm::Pretraining>(seppo::read_model_config(trained));
  BOOST_CHECK(seppo::matmul_precision() == MatmulPrecision::high);
  seppo::set_matmul_precision(MatmulPrecision::highest);
}
