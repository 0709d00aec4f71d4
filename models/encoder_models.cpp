// Predictor and Classifier: how they are built, class tokens, pooling.
#include "encoder_models.h"

namespace seppo::inline SEPPO_ABI {
namespace {

template <class Config>
const Config& checked(const char* what, const Config& c) {
  check_config(what, c);
  return c;
}

PredictorConfig with_position_for_token(const ClassifierConfig& c) {
  PredictorConfig predictor = c.predictor;
  predictor.max_length += c.pooling == Pooling::class_token;
  return predictor;
}

// The token before the rows of each sequence; `rows` becomes their new offsets.
Tensor put_in_front(const Tensor& token, const Tensor& x, std::vector<int>& rows) {
  std::vector<int> order;  // of the rows of x, with the token after them
  for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
    order.push_back(x.size(0));
    for (int row = rows[s]; row < rows[s + 1]; ++row) order.push_back(row);
  }
  for (std::size_t s = 0; s < rows.size(); ++s) rows[s] += static_cast<int>(s);
  return index_select(concat({x, token}), 0, order);
}

}  // namespace

// The input network starts at half of Xavier's range: while inputs are small beside the positions, attention finds
// positional patterns about an epoch sooner.
Predictor::Predictor(const Scope& s, const PredictorConfig& c)
    : config(checked("predictor", c)),
      input_dropout(c.input_dropout),
      input(s / "input", c.features, c.layer.d_model, {.bias = c.layer.bias, .init = init_xavier_uniform(0.5)}),
      positions(s / "positions", c.positions, c.max_length, c.layer.d_model),
      encoder(s / "encoder", c.n_layers, c.layer),
      output_network(c.output_network ? std::optional<OutputNetwork>(std::in_place, s / "output", c.layer)
                                      : std::nullopt),
      output(s / "output" / "classes", c.layer.d_model, c.classes, {.bias = c.layer.bias}) {}

Classifier::Classifier(const Scope& s, const ClassifierConfig& c)
    : config(checked("classifier", c)), predictor(s, with_position_for_token(c)) {
  if (c.pooling == Pooling::class_token)
    class_token = s.parameter("class_token", {1, c.predictor.layer.d_model}, init_normal(0.02), /*decay=*/false);
}

Tensor Classifier::operator()(const Tensor& x, Offsets input_rows) const {
  std::vector<int> rows(input_rows.begin(), input_rows.end());
  Tensor y = predictor.embed(x);  // [rows, d_model]
  if (class_token) y = put_in_front(*class_token, y, rows);
  return predictor.classify(pool(predictor.encode(y, rows), rows, config.pooling));  // [sequences, classes]
}

Tensor pool(const Tensor& x, Offsets rows, Pooling pooling) {
  std::vector<Tensor> vectors;
  for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
    check(rows[s] < rows[s + 1], "pool: sequence ", s, " is empty");
    if (pooling == Pooling::class_token) {
      vectors.push_back(slice(x, 0, rows[s], rows[s] + 1));
      continue;
    }
    const Tensor sequence = slice(x, 0, rows[s], rows[s + 1]);  // [its rows, d]
    vectors.push_back(pooling == Pooling::mean ? mean(sequence, 0, true) : amax(sequence, 0, true));
  }
  return concat(vectors);
}

}  // namespace seppo::inline SEPPO_ABI
