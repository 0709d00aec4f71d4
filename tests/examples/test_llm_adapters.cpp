// llm: adapters of every family, which the package peft opens, and peft's own, which llm opens.
// needs: programs: llm
#include "llm/source.h"
#include "support/llm_models.h"
#include "support/transformers.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace test;
using nlohmann::json;

namespace {

constexpr const char* kText = "abc";

// Opens the adapters in NAME/adapter beside the model that they were trained for, and makes others, PEFT, of several
// ranks and alphas: {NAME: {"opened": LOGITS, "made": LOGITS}}.
constexpr const char* kScript = R"(
import json, sys
import torch
from transformers import AutoModelForCausalLM
from peft import LoraConfig, PeftModel, get_peft_model
torch.manual_seed(1)
tokens, said = torch.tensor([list(sys.argv[1].encode())]), {}
for name in sys.argv[2:]:
    def base():
        return AutoModelForCausalLM.from_pretrained(name + "/hf")
    def logits(model):
        return model.eval()(tokens).logits[0].tolist()
    opened = logits(PeftModel.from_pretrained(base(), name + "/f/adapter"))
    targets = json.load(open(name + "/f/adapter/adapter_config.json"))["target_modules"]
    config = LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=6, target_modules=targets[1:],
                        use_rslora=len(said) % 2 == 1, rank_pattern={targets[1]: 3}, alpha_pattern={targets[-1]: 5})
    model = get_peft_model(base(), config)
    for parameter, values in model.named_parameters():
        if "lora_" in parameter:
            torch.nn.init.normal_(values, std=0.3)
    model.save_pretrained(name + "/peft")
    said[name] = {"opened": opened, "made": logits(model)}
print(json.dumps(said))
)";

// The logits of a model with adapters.
std::vector<float> logits_of(const fs::path& model, const fs::path& adapter) {
  const llm::Folder opened = llm::Source{.model = model, .adapter = adapter}.open();
  const seppo::Inference guard;
  seppo::Ragged start;
  start.add(opened.encode(kText));
  const auto values = opened.model(start).values();
  return {values.begin(), values.end()};
}

void check_close(const std::vector<float>& ours, const json& theirs) {
  std::vector<double> all;
  for (const json& row : theirs)
    for (const json& value : row) all.push_back(value.get<double>());
  BOOST_REQUIRE_EQUAL(ours.size(), all.size());
  double most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) most = std::max(most, std::abs(double{ours[i]} - all[i]));
  BOOST_CHECK_LT(most, 5e-5);
}

bool are_of_parameters(const seppo::FormatError& e) {
  return std::string(e.what()).find("'target_parameters': ") != std::string::npos;
}

void run(const Folder& folder, const Words& command) {
  const Result r = folder.run(command);
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
}

}  // namespace

BOOST_AUTO_TEST_CASE(adapters_are_pefts) {
  const Transformers transformers;
  if (!transformers.are_there("torch, peft")) return;
  const Folder folder("llm");
  write_text(folder);
  folder.write("adapters.py", kScript);
  Words script{"adapters.py", kText};
  for (const std::string family : enum_names(seppo::Architecture{})) {
    run(folder, with(with({"llm", "train", "--shape", family, "--out", family}, kTiny), kBrief));
    run(folder,
        with({"llm", "finetune", "--model", family, "--lora", "2", "--lr", "0.05", "--rslora", "--out", family + "/f"},
             kBrief));
    script.push_back(family);
  }
  const json said = transformers.run(folder, script);
  for (const auto& [name, of_family] : said.items()) BOOST_TEST_CONTEXT(name) {
      const fs::path model = folder.path / name / "hf";
      check_close(logits_of(model, folder.path / name / "f/adapter"), of_family["opened"]);
      check_close(logits_of(folder.path / name / "f/hf", {}), of_family["opened"]);
      if (name ==
          "mixtral")  // peft opens adapters of single experts, but makes only such for all of a layer's together
        BOOST_CHECK_EXCEPTION(logits_of(model, folder.path / name / "peft"), seppo::FormatError, are_of_parameters);
      else
        check_close(logits_of(model, folder.path / name / "peft"), of_family["made"]);
    }
}
