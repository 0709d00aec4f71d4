// Adapters as they begin: what they are drawn from, and that the model is still the one that they were made for.
#include <seppo/autograd/ops.h>
#include <seppo/models/language_model.h>
#include <seppo/models/lora.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace seppo;

namespace {

struct Tuned {
  Parameters parameters{5};
  LanguageModel model{parameters.root(),
                      {.vocabulary = 11,
                       .layer = {.d_model = 64, .n_heads = 4, .d_ff = 256, .dropout = 0},
                       .n_layers = 2,
                       .max_length = 16}};
  Adapters adapters{parameters, model, {.lora = 16}};
};

std::vector<real> copy_of(const Tensor& tensor) { return {tensor.values().begin(), tensor.values().end()}; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_is_drawn_by_its_inputs_and_b_is_zero) {
  const Tuned tuned;
  BOOST_CHECK_EQUAL(tuned.adapters.each().size(), 2 * 4);  // of each layer: attention in and out, feed-forward up, down
  for (const Adapters::Adapter& adapter : tuned.adapters.each()) {
    const std::vector<real> a = copy_of(adapter.low_rank->a);
    double squares = 0;
    for (const real x : a) squares += static_cast<double>(x) * static_cast<double>(x);
    const double deviation = std::sqrt(squares / static_cast<double>(a.size()));
    const double expected = 1 / std::sqrt(adapter.low_rank->a.size(1));
    BOOST_CHECK_MESSAGE(std::abs(deviation / expected - 1) < 0.1, adapter.projection << ": " << deviation);
    BOOST_CHECK(std::ranges::all_of(copy_of(adapter.low_rank->b), [](real x) { return x == 0; }));
  }
}

BOOST_AUTO_TEST_CASE(the_model_begins_unchanged_and_only_adapters_get_gradients) {
  Tuned tuned;
  const Ragged text{.tokens = {1, 4, 2, 9}, .offsets = {0, 4}};
  const std::vector<real> before = copy_of(tuned.model(text));
  const Tensor logits = tuned.adapters.apply()(text);
  BOOST_CHECK(copy_of(logits) == before);
  backward(sum(square(logits)));
  for (const Parameters::Entry& entry : tuned.parameters.entries()) {
    const auto gradient = std::as_const(tuned.parameters).gradients().subspan(entry.offset, entry.size());
    const bool has_gradient = std::ranges::any_of(gradient, [](real g) { return g != 0; });
    const bool is_b = entry.name.starts_with("lora.") && entry.name.ends_with(".b");  // that of A is 0 while B is
    BOOST_CHECK_MESSAGE(has_gradient == is_b, entry.name);
  }
}
