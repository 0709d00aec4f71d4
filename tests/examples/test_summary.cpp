// The table of a model's modules.
#include "app/summary.h"
#include "models/small_transformer.h"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace seppo;

BOOST_AUTO_TEST_CASE(the_summary_lists_modules) {
  Parameters parameters(0);
  const Transformer model(parameters.root(), small::config());
  const Ragged src = small::random_batch({3, 2}, 1), tgt = small::random_batch({2, 3}, 2);
  const std::size_t before = tape().size();
  const std::string text = examples::summary(parameters, [&] { model.logits(src, tgt); });
  BOOST_CHECK_EQUAL(tape().size(), before);  // leaves nothing behind
  for (const char* line : {"module", "\nencoder.0.ffn.up               [5,12]                    108\n",
                           "\nencoder.0.ffn                  [5,8]                     212\n", "output", "\ntotal"})
    BOOST_CHECK_MESSAGE(text.find(line) != std::string::npos, line << " is not in\n" << text);
  BOOST_CHECK_NE(text.find(std::to_string(parameters.count() / 1000) + ","), std::string::npos);
}

// Layer 1 does not have the parameters of layers 10 and following.
BOOST_AUTO_TEST_CASE(each_layer_has_its_own_parameters) {
  Parameters parameters(0);
  const Encoder model(parameters.root() / "encoder", 12, {.d_model = 2, .n_heads = 1, .d_ff = 3});
  const Ragged src = small::random_batch({2}, 1);
  const std::string text = examples::summary(parameters, [&] { model(ones({2, 2}), src.offsets); });
  const auto row = [&](const std::string& module) {
    const std::size_t at = text.find("\n" + module + " ") + 1 + module.size();
    return text.substr(text.find_first_not_of(' ', at), text.find('\n', at) - text.find_first_not_of(' ', at));
  };
  BOOST_CHECK_EQUAL(row("encoder.1"), row("encoder.2"));
  BOOST_CHECK_EQUAL(row("encoder.1"), row("encoder.11"));
}
