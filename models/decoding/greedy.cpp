// Greedy decoding with cached keys and values; targets that have ended leave the batch.
#include "greedy.h"

#include <algorithm>
#include <numeric>

namespace seppo::inline SEPPO_ABI {

std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, const GreedyOptions& options) {
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  std::vector<std::vector<int>> targets(src.size());
  KeyValueCache cache = model.make_cache(src.size(), options.max_length);
  const Tensor memory = model.encode(src);
  std::vector<int> open(src.size());  // the source of each row
  std::iota(open.begin(), open.end(), 0);
  Ragged next;  // the last token of each row
  for (std::size_t s = 0; s < src.size(); ++s) next.add({&options.bos, 1});
  for (int length = 0; length < options.max_length && !open.empty(); ++length) {
    const TapeMark step;
    const Tensor logits = model.decode(next, memory, src.offsets, &cache);  // [rows, tgt_vocabulary]
    next.clear();
    std::vector<int> parents, sources, source_rows{0};  // of the rows that go on
    for (std::size_t s = 0, r = 0; s < targets.size(); ++s) {
      if (r < open.size() && open[r] == static_cast<int>(s)) {
        const real* const row = logits.data() + r * logits.cols();
        const int token = static_cast<int>(std::max_element(row, row + logits.cols()) - row);
        targets[s].push_back(token);
        if (token != options.eos) {
          next.add({&token, 1});
          parents.push_back(static_cast<int>(r));
          sources.push_back(open[r]);
        }
        ++r;
      }
      source_rows.push_back(static_cast<int>(parents.size()));
    }
    if (parents.size() == open.size()) continue;
    cache.select(parents, source_rows);
    open = std::move(sources);
  }
  return targets;
}

}  // namespace seppo::inline SEPPO_ABI
