#include "classifier.h"

namespace seppo::inline SEPPO_ABI {
namespace {

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

PredictorConfig with_place_for_token(PredictorConfig c, Pooling pooling) {
  c.max_length += pooling == Pooling::class_token;
  return c;
}

}  // namespace

Classifier::Classifier(const Scope& s, const PredictorConfig& c, Pooling pooling)
    : pooling(pooling), predictor(s, with_place_for_token(c, pooling)) {
  if (pooling == Pooling::class_token)
    class_token.push_back(s.parameter("class_token", {1, c.d_model}, init_normal(0.02), /*decay=*/false));
}

Tensor Classifier::operator()(const Tensor& x, Offsets input_rows, AttentionMaps* maps) const {
  std::vector<int> rows(input_rows.begin(), input_rows.end());
  Tensor y = predictor.embed(x);  // [rows, d_model]
  if (!class_token.empty()) y = put_in_front(class_token.front(), y, rows);
  return predictor.classify(pool(predictor.encode(y, rows, maps), rows, pooling));
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
