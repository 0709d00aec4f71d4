// Splits: one uniform number for each example, from a stream of its own.
#include "split.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/random.h"

#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

void check_share(const std::vector<int>& part, double share, const char* name, std::size_t examples) {
  check<ArgumentError>(share == 0 || !part.empty(), "split_examples: none of ", examples, " examples fell into the ",
                       name, " part, whose share is ", share,
                       ": it needs more examples, a larger share or another seed");
}

}  // namespace

SplitPart part_of(std::uint64_t number, const SplitShares& shares) {
  const bool are_parts = shares.test >= 0 && shares.validation >= 0 && shares.test + shares.validation <= 1;
  check<ArgumentError>(are_parts, "split: the shares ", shares.validation, " and ", shares.test, " are not parts of 1");
  const double drawn = RandomStream(shares.seed, Purpose::split, number).uniform();
  if (drawn < shares.test) return SplitPart::test;
  return drawn < 1 - shares.validation ? SplitPart::train : SplitPart::validation;
}

Split split_examples(std::size_t examples, const SplitShares& shares) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  check<ArgumentError>(examples <= kMost, "split_examples: ", examples, " examples are more than ", kMost);
  Split split;
  std::vector<int>* const parts[] = {&split.train, &split.validation, &split.test};  // as SplitPart has them
  for (std::size_t example = 0; example < examples; ++example) {
    const SplitPart part = part_of(example, shares);
    parts[static_cast<std::size_t>(part)]->push_back(static_cast<int>(example));
  }
  check_share(split.validation, shares.validation, "validation", examples);
  check_share(split.test, shares.test, "test", examples);
  check_share(split.train, 1 - (shares.test + shares.validation), "training", examples);
  return split;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
